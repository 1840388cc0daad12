"""Who leads the metadata log and how far it is committed. No I/O: events in, effects out."""

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

    Each event is told with `step`, and all effects it leads to are carried out, in order, before the next one is told.
    `deadline_ms` is the one timer: `Tick` when it has come. Roles and their order are in `roles.py`, what each does in
    a module of its name, what is answered to peers in `requests.py`.

    What the shell owes: a sync and `LogSynced` after the start and after every append, `VotersChanged` whenever the
    newest VotersRecord of the log is another one, one answer or failure for each `Send`.
    """

    def __init__(
        self,
        voter: Voter,
        log: LogFacts,
        *,
        cluster_id: str,
        timing: QuorumTiming | None = None,
        # Whom to ask for the leader while the voters are not known.
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
    def election(self) -> ElectionState:
        return self._replica.election

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._replica.leader_epoch

    @property
    def leader_id(self) -> BrokerId:
        """NO_BROKER while nobody is known to lead this epoch, and when we led it and resigned."""
        return self._replica.leader_id

    @property
    def voters(self) -> VoterSet:
        """The newest in the log, committed or not."""
        return self._replica.voters

    @property
    def voters_offset(self) -> Offset:
        """Where they stand in the log: committed once the high watermark is past it. -1: those of the start."""
        return self._replica.voters_offset

    @property
    def is_voter(self) -> bool:
        """An observer follows and never stands. That may change with the voter set."""
        return self._replica.is_voter

    @property
    def high_watermark(self) -> Offset:
        """Never falls. -1 until it is known: a leader knows it when the first record of its epoch is committed."""
        return self._replica.high_watermark

    @property
    def epoch_start_offset(self) -> Offset:
        """Of the first record of the epoch we lead; -1 if we do not. Below it others decided."""
        state = self._replica.state
        return state.epoch_start_offset if isinstance(state, Leader) else Offset(-1)

    @property
    def deadline_ms(self) -> int | None:
        """When to say `Tick`, on the clock of `Now.ms`. May change with every step."""
        return self._replica.state.deadline_ms()

    @property
    def handed_over(self) -> bool:
        """We lead no longer, and every other voter knows, or could not be told."""
        state = self._replica.state
        return state.is_known if isinstance(state, Resigned) else not isinstance(state, Leader)

    def fetch_answer(self, fetch: Fetch) -> Answer:
        """To a fetch that was held back: what is true now. Changes nothing."""
        return fetch_answer(self._replica, fetch)

    def is_loading(self, snapshot: SnapshotId) -> bool:
        """Asked right before a snapshot that has arrived takes the place of the log."""
        state = self._replica.state
        return isinstance(state, Follower) and state.loading == snapshot

    def progress(self) -> list[ReplicaProgress]:
        """What the leader knows of all replicas, itself first. Empty on others."""
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
        invariant(replica.leader_epoch < 0, "a quorum starts once")
        replica.voters = event.voters
        # Where in the log is not known; at the latest here.
        replica.voters_offset = Offset(replica.log.log_end_offset - 1 if event.voters_in_log else -1)
        replica.election = election
        if election.leader_epoch < replica.log.last_epoch:
            # A directory put together by hand. The epoch never falls.
            replica.elect(ElectionState(leader_epoch=LeaderEpoch(replica.log.last_epoch)))
        leader_id = replica.election.leader_id
        if leader_id == replica.id:
            replica.take(Resigned(replica, ()))
        elif leader_id != NO_BROKER:
            replica.take(Follower(replica, leader_id))
        else:
            # A candidate does not go on as such: its log may have lost what it was voted for.
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
            invariant(not isinstance(event, SnapshotLoaded), "a snapshot was loaded that nobody waits for")
        elif isinstance(event, SnapshotProgress):
            replica.state.snapshot_progress()
        elif isinstance(event, SnapshotFailed):
            replica.state.snapshot_over(wait_ms=replica.timing.retry_backoff_ms)
        else:
            # Whoever made it knew that it was committed.
            replica.advance_high_watermark(event.snapshot.end_offset)
            replica.state.snapshot_over(wait_ms=0)
