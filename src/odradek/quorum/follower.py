"""The role follower: fetch from the leader, start an election after the fetch timeout. An observer only fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.ids import BrokerId, Offset
from odradek.base.invariants import invariant
from odradek.quorum.effects import AppendFetched, FetchSnapshot, TruncateTo
from odradek.quorum.fetching import Fetcher
from odradek.quorum.log_facts import EpochEnd, SnapshotId, truncation_point
from odradek.quorum.messages import AddVoter, Answer, Fetch, FetchAnswer, RemoveVoter, Request, UpdateVoter
from odradek.quorum.roles import Role, RoleState, earliest
from odradek.quorum.voters import VoterKey

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Follower(RoleState):
    role = Role.FOLLOWER

    def __init__(self, replica: Replica, leader_id: BrokerId) -> None:
        super().__init__(replica)
        self._leader_id = leader_id
        self._fetch_deadline_ms = replica.now.ms + replica.timing.fetch_timeout_ms
        self._update_due_ms = self._fetch_deadline_ms
        self._fetcher = Fetcher(replica.now.ms)
        # Nothing is fetched while a snapshot is being loaded.
        self.loading: SnapshotId | None = None
        # The leader has answered in this epoch, and there is no sign since that it is gone.
        self._leader_is_there = False
        self._leader_failed = False
        self._leader_high_watermark = Offset(-1)

    def deadline_ms(self) -> int | None:
        fetch_timeout = self._fetch_deadline_ms if self.replica.may_stand else None
        update = self._update_due_ms if self._wanted_change() else None
        return earliest(fetch_timeout, update, None if self.loading else self._fetcher.deadline_ms(self.replica))

    def begin(self) -> None:
        self._fetch()

    def tick(self) -> None:
        now_ms = self.replica.now.ms
        if self.replica.may_stand and now_ms >= self._fetch_deadline_ms:
            self.replica.become_prospective()
            return
        change = self._wanted_change()
        if change is not None and now_ms >= self._update_due_ms:
            self._update_due_ms = now_ms + self.replica.timing.fetch_timeout_ms
            self.replica.send(self._leader_id, change)
        self._fetch()

    def log_synced(self) -> None:
        self._advance()
        self._fetch()

    def voters_changed(self) -> None:
        self._leader_is_heard()

    def would_vote(self) -> bool:
        """A follower with a live leader grants no pre-vote."""
        return not self._leader_is_there

    def answered(self, request: Request, answer: Answer) -> None:
        if not isinstance(request, Fetch) or not isinstance(answer, FetchAnswer):
            return
        if not self._fetcher.is_waiting_for(request):
            return
        self._leader_is_there = True
        self._leader_failed = False
        self._leader_is_heard()
        self._fetcher.again_at(self.replica.now.ms)
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot is not None:
            self.loading = answer.snapshot
            self.replica.effects.append(FetchSnapshot(self._leader_id, self.replica.leader_epoch, answer.snapshot))
        else:
            self._take(request, answer)

    def failed(self, request: Request) -> None:
        if self._fetcher.is_waiting_for(request):
            self._leader_failed = self._fetcher.peer == self._leader_id
            self._fetcher.again_at(self.replica.now.ms + self.replica.timing.retry_backoff_ms)

    def peer_gone(self, peer: BrokerId) -> None:
        # Only once. With repeated random waits the shortest would win, and voters would stand at the same moment.
        if peer == self._leader_id and self._leader_is_there:
            self._leader_has_gone(int(self.replica.now.chance * self.replica.timing.election_backoff_max_ms))

    def leader_resigned(self, successors: tuple[VoterKey, ...]) -> None:
        """The most caught-up successor stands first."""
        self._leader_has_gone(self._turn_ms(successors))

    def snapshot_progress(self) -> None:
        self._leader_is_heard()

    def snapshot_over(self, wait_ms: int) -> None:
        """The snapshot was loaded or is not available. The next fetch continues from there."""
        self.loading = None
        self._fetcher.again_at(self.replica.now.ms + wait_ms)

    def _leader_is_heard(self) -> None:
        self._fetch_deadline_ms = self.replica.now.ms + self.replica.timing.fetch_timeout_ms

    def _leader_has_gone(self, wait_ms: int) -> None:
        """The leader seems to be gone. Voters that still reach it will not vote for this node."""
        self._leader_is_there = False
        self._fetch_deadline_ms = min(self._fetch_deadline_ms, self.replica.now.ms + wait_ms)

    def _fetch(self) -> None:
        if self.loading is None:
            # Other voters may know a newer leader.
            other = self.replica.any_peer(but=self._leader_id) if self._leader_failed else None
            self._fetcher.poll(self.replica, self._leader_id if other is None else other)

    def _take(self, fetch: Fetch, answer: FetchAnswer) -> None:
        self._leader_high_watermark = answer.high_watermark
        if answer.records:
            invariant(
                fetch.fetch_offset == self.replica.log.log_end_offset, "fetched records do not begin at the log end"
            )
            # No fetch is sent before these are synced, because it would say that they are.
            self.replica.effects.append(AppendFetched(self.replica.leader_epoch, answer.records))
            return
        self._advance()
        self._fetch()

    def _truncate(self, diverging: EpochEnd) -> None:
        replica = self.replica
        offset = truncation_point(replica.log, diverging)
        invariant(
            offset >= max(replica.high_watermark, replica.log.log_start_offset),
            f"the leader of epoch {replica.leader_epoch} lacks committed records from {offset} on",
        )
        replica.effects.append(TruncateTo(offset))

    def _advance(self) -> None:
        self.replica.advance_high_watermark(min(self._leader_high_watermark, Offset(self.replica.log.log_end_offset)))

    def _wanted_change(self) -> AddVoter | RemoveVoter | UpdateVoter | None:
        """A change if the voter set has outdated data about this node, or lacks it and it wants to join."""
        replica = self.replica
        if replica.may_stand:
            if replica.voter in replica.voters.voters:
                return None
            return UpdateVoter(voter=replica.voter, cluster_id=replica.cluster_id, leader_epoch=replica.leader_epoch)
        if replica.is_voter or replica.shutting_down or not replica.joins or not replica.voters.voters:
            return None
        # Our node id votes with another directory: the one this node had before.
        for key in replica.voters.keys:
            if key.voter_id == replica.id:
                return RemoveVoter(voter=key, cluster_id=replica.cluster_id)
        return AddVoter(voter=replica.voter, cluster_id=replica.cluster_id, ack_when_committed=False)

    def _turn_ms(self, successors: tuple[VoterKey, ...]) -> int:
        longest_ms = self.replica.timing.election_backoff_max_ms
        if self.replica.key not in successors:
            return int(longest_ms * self.replica.now.chance)
        place = successors.index(self.replica.key)
        return longest_ms >> (len(successors) - place) if place else 0
