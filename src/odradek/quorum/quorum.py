"""Leader election and commits of the metadata log. No I/O: events in, effects out."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import invariant
from odradek.quorum.effects import Effect
from odradek.quorum.election import ElectionState
from odradek.quorum.events import (
    Answered,
    Event,
    LogSynced,
    Requested,
    RequestFailed,
    Resign,
    ShuttingDown,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotProgress,
    Started,
    Tick,
    VotersChanged,
)
from odradek.quorum.follower import Follower
from odradek.quorum.leader import Leader
from odradek.quorum.log_facts import LogFacts, SnapshotId
from odradek.quorum.messages import Answer, Fetch
from odradek.quorum.progress import ReplicaProgress
from odradek.quorum.replica import Replica
from odradek.quorum.requests import fetch_answer, handle
from odradek.quorum.resigned import Resigned
from odradek.quorum.roles import Role
from odradek.quorum.timing import Now, QuorumTiming
from odradek.quorum.unattached import Unattached
from odradek.quorum.voters import Voter, VoterSet


class Quorum:
    """A voter, or an observer, of the metadata log: KRaft's rules (KIP-595, 630, 853, 996).

    Pass each event to `step`, and run all its effects in order before the next event. `deadline_ms` is the only timer:
    send `Tick` when it is reached. `roles.py` has the roles and their transitions, each role has a module of its name,
    and `requests.py` has the answers to peers.

    The shell must send: `LogSynced` after a sync, which it starts after the start and after every append;
    `VotersChanged` when the newest VotersRecord of the log changes; one answer or failure for each `Send`.
    """

    def __init__(
        self,
        voter: Voter,
        log: LogFacts,
        *,
        cluster_id: str,
        timing: QuorumTiming | None = None,
        # Peers to ask for the leader while the voters are unknown.
        bootstrap: tuple[BrokerId, ...] = (),
        # Whether an observer asks to become a voter.
        joins: bool = False,
    ) -> None:
        timing = timing or QuorumTiming()
        self._replica = Replica(voter, log, cluster_id=cluster_id, timing=timing, bootstrap=bootstrap, joins=joins)

    @property
    def role(self) -> Role:
        return self._replica.state.role

    @property
    def hears_leader(self) -> bool:
        """This node leads, or its leader answers: the reasons to refuse a pre-vote."""
        return not self._replica.state.would_vote()

    @property
    def election(self) -> ElectionState:
        return self._replica.election

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._replica.leader_epoch

    @property
    def leader_id(self) -> BrokerId:
        """NO_BROKER while this epoch has no known leader, and after this node led it and resigned."""
        return self._replica.leader_id

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, committed or not."""
        return self._replica.voters

    @property
    def voters_offset(self) -> Offset:
        """The offset of the voter set: committed when the high watermark is past it. -1: the voters from the start."""
        return self._replica.voters_offset

    @property
    def is_voter(self) -> bool:
        """False for an observer, which follows and never stands. This may change with the voter set."""
        return self._replica.is_voter

    @property
    def high_watermark(self) -> Offset:
        """Never decreases. -1 while unknown: a leader learns it when the first record of its epoch is committed."""
        return self._replica.high_watermark

    @property
    def epoch_start_offset(self) -> Offset:
        """The offset of the first record of the epoch that this node leads. -1 if it does not lead."""
        state = self._replica.state
        return state.epoch_start_offset if isinstance(state, Leader) else Offset(-1)

    @property
    def deadline_ms(self) -> int | None:
        """When to send `Tick`, on the clock of `Now.ms`. May change with every step."""
        return self._replica.state.deadline_ms()

    @property
    def handed_over(self) -> bool:
        """This node does not lead, and every other voter has answered its resignation or could not be reached."""
        state = self._replica.state
        return state.is_known if isinstance(state, Resigned) else not isinstance(state, Leader)

    def fetch_answer(self, fetch: Fetch) -> Answer:
        """The current answer to a delayed fetch. Changes nothing."""
        return fetch_answer(self._replica, fetch)

    def is_loading(self, snapshot: SnapshotId) -> bool:
        """Check this right before the snapshot replaces the log."""
        state = self._replica.state
        return isinstance(state, Follower) and state.loading == snapshot

    def progress(self) -> list[ReplicaProgress]:
        """What the leader knows of all replicas, itself first. Empty on other nodes."""
        state = self._replica.state
        return state.describe() if isinstance(state, Leader) else []

    def step(self, event: Event, now: Now) -> list[Effect]:
        replica = self._replica
        replica.now = now
        match event:
            case Started():
                self._start(event)
            case Tick():
                replica.state.tick()
            case LogSynced():
                replica.state.log_synced()
            case VotersChanged():
                replica.voters, replica.voters_offset = event.voters, event.offset
                replica.state.voters_changed()
            case Requested():
                handle(replica, event.token, event.request)
            case Answered():
                self._answered(event)
            case RequestFailed():
                replica.state.over(event.request)
                replica.state.failed(event.request)
                if event.peer_gone:
                    replica.state.peer_gone(event.peer)
            case SnapshotProgress() | SnapshotLoaded() | SnapshotFailed():
                self._snapshot(event)
            case Resign() | ShuttingDown():
                replica.shutting_down = replica.shutting_down or isinstance(event, ShuttingDown)
                if isinstance(replica.state, Leader):
                    replica.state.resign()
        effects, replica.effects = replica.effects, []
        return effects

    def _start(self, event: Started) -> None:
        replica, election = self._replica, event.election
        invariant(replica.leader_epoch < 0, "a quorum can start only once")
        replica.voters = event.voters
        # The exact offset is unknown; this is the latest possible one.
        replica.voters_offset = Offset(replica.log.log_end_offset - 1 if event.voters_in_log else -1)
        replica.election = election
        if election.leader_epoch < replica.log.last_epoch:
            # The directory was assembled by hand. The epoch never decreases.
            replica.elect(ElectionState(leader_epoch=LeaderEpoch(replica.log.last_epoch)))
        leader_id = replica.election.leader_id
        if leader_id == replica.id:
            replica.take(Resigned(replica, ()))
        elif leader_id != NO_BROKER:
            replica.take(Follower(replica, leader_id))
        else:
            # A restarted candidate starts over: its log may have lost the records it was voted for.
            replica.take(Unattached(replica))
        if replica.may_stand and not replica.other_voters:
            replica.become_prospective()

    def _answered(self, event: Answered) -> None:
        replica, answer = self._replica, event.answer
        if replica.learn(answer.leader_id, answer.leader_epoch):
            return
        replica.state.over(event.request)
        if answer.error is ErrorCode.NONE and answer.leader_epoch == replica.leader_epoch:
            replica.state.answered(event.request, answer)
        else:
            replica.state.failed(event.request)

    def _snapshot(self, event: SnapshotProgress | SnapshotLoaded | SnapshotFailed) -> None:
        replica = self._replica
        if not isinstance(replica.state, Follower) or replica.state.loading != event.snapshot:
            invariant(not isinstance(event, SnapshotLoaded), "a snapshot was loaded that was not requested")
        elif isinstance(event, SnapshotProgress):
            replica.state.snapshot_progress()
        elif isinstance(event, SnapshotFailed):
            replica.state.snapshot_over(wait_ms=replica.timing.retry_backoff_ms)
        else:
            # Snapshots contain only committed records.
            replica.advance_high_watermark(event.snapshot.end_offset)
            replica.state.snapshot_over(wait_ms=0)
