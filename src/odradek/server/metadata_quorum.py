"""This node's part in agreeing on the metadata log: carries out what the quorum's core asks, and tells it what happens.

The core takes one event at a time, and all it asked for is done before the next: votes are on disk before they are
answered. Only fsyncs of the log and requests to peers run beside it and come back as events. What is committed reaches
`feed`, on leaders, followers and observers alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.base.errors import ErrorCode, KafkaError, UnusableDirectory
from odradek.base.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken, invariant
from odradek.base.limits import metadata_batch_bytes_max
from odradek.base.ports import Ports
from odradek.log.log import Log
from odradek.metadata.batches import MetadataBatch, control_batch, metadata_batch, read_batches
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.metadata.log_facts import MetadataLogFacts
from odradek.metadata.metadata_log import LoadedMetadata, load_metadata, write_election
from odradek.metadata.voter_history import VoterHistory
from odradek.protocol.schema import Message
from odradek.quorum.effects import (
    AppendEpochStart,
    AppendFetched,
    AppendVoters,
    Effect,
    FetchSnapshot,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    Reply,
    Send,
    TruncateTo,
)
from odradek.quorum.events import (
    Event,
    LogSynced,
    Requested,
    ShuttingDown,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotProgress,
    Started,
    Tick,
    VotersChanged,
)
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.messages import Answer, Request
from odradek.quorum.quorum import Quorum
from odradek.quorum.timing import Now
from odradek.quorum.voters import Endpoint, VoterSet
from odradek.server.metadata_fetches import MetadataFetches
from odradek.server.metadata_snapshots import MetadataSnapshots, NoSnapshot
from odradek.server.peers import Peers
from odradek.server.quorum_member import Member
from odradek.server.quorum_peers import QuorumPeers

_log = logging.getLogger(__name__)

HAND_OVER_MS = 1_000
_CHANCES = 1 << 30


class MetadataQuorum:
    def __init__(self, member: Member, ports: Ports, peers: Peers) -> None:
        self._member = member
        self._ports = ports
        self.peers = peers
        self.others = QuorumPeers(member, peers, lambda: self.voters)
        self._core: Quorum
        self._loaded: LoadedMetadata
        self.feed = MetadataFeed(ClusterImage(cluster_id=member.cluster_id))
        self.fetches = MetadataFetches(self)
        self.snapshots = MetadataSnapshots(
            self,
            ports,
            own=member.voter.key,
            cluster_id=member.cluster_id,
            bytes_between=member.snapshot_every_bytes,
        )
        # Told when this node begins to lead, its first records written, and when it leads no more.
        self.on_elected: Callable[[], None] = _nothing
        self.on_deposed: Callable[[], None] = _nothing
        # Told who led before when somebody else begins to lead.
        self.on_new_leader: Callable[[BrokerId], None] = _nobody_minds
        self._last_leader = NO_BROKER
        self._leading = False
        self._inbox: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._stepping = False
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._settled = asyncio.Event()
        self._failed = False
        # The log is closed: what still happens is too late.
        self._over = False

    # What others may know

    @property
    def log(self) -> Log:
        return self._loaded.log

    @property
    def core(self) -> Quorum:
        return self._core

    @property
    def bootstrap(self) -> tuple[Message, ...]:
        return self._loaded.bootstrap

    @property
    def cluster_id(self) -> str:
        return self._member.cluster_id

    @property
    def leader_id(self) -> BrokerId:
        return self._core.leader_id

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._core.leader_epoch

    @property
    def is_leading(self) -> bool:
        return self._leading

    @property
    def voters(self) -> VoterSet:
        return self._loaded.voters.newest

    def voters_at(self, offset: Offset) -> VoterSet:
        return self._loaded.voters.at(offset)

    def leader_endpoints(self) -> list[tuple[BrokerId, Endpoint]]:
        """To be told to whoever asks the wrong node."""
        leader_id = self.leader_id
        if leader_id == self._member.voter.key.voter_id:
            return [(leader_id, endpoint) for endpoint in self._member.voter.endpoints]
        endpoint = self.others.endpoint_of(leader_id)
        return [] if endpoint is None else [(leader_id, endpoint)]

    # Living

    async def start(self) -> None:
        """Load the log and take part. The only voter leads when this returns."""
        ports = self._ports
        self._loaded = await ports.spawner.blocking(
            load_metadata,
            ports.disk,
            self.feed,
            self._member.voter,
            ports.clock.wall_ms(),
            self._member.segment_bytes,
        )
        self._require_company()
        self.snapshots.known = self._loaded.snapshots
        facts = MetadataLogFacts(self._loaded.log, self.snapshots.known)
        self._core = Quorum(
            self._member.voter,
            facts,
            cluster_id=self._member.cluster_id,
            timing=self._member.timing,
            bootstrap=tuple(self._member.bootstrap_by_id),
            joins=self._member.joins,
        )
        self._tell(
            Started(
                election=self._loaded.election,
                voters=self._loaded.voters.newest,
                voters_in_log=self._loaded.voters_in_log,
            )
        )
        self._tell(LogSynced())
        self._sync_soon()
        await self._quiet()

    def _require_company(self) -> None:
        """A node whose configuration names nobody must be the only voter: it could not reach any other."""
        keys = self.voters.keys
        if self._member.bootstrap or keys == (self._member.voter.key,):
            return
        if not keys:
            raise UnusableDirectory("nothing says who votes: format the directory again")
        raise UnusableDirectory(
            f"the voters are {[key.voter_id for key in keys]} and this node is {self._member.voter.key.voter_id}: "
            "name them in controller.quorum.bootstrap.servers, unless the directory is another node's"
        )

    async def stop(self) -> None:
        """What was proposed is committed if it can be, others take over if they can; then the log is closed."""
        if self._leading:
            await self._all_committed()
        self._tell(ShuttingDown())
        await self._quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_MS / 1000):
                while not self._core.handed_over:
                    self._settled.clear()
                    await self._settled.wait()
        await self._quiet()
        self._over = True
        self.fetches.answer_all()
        if self._timer is not None:
            self._timer.cancel()
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        await self.snapshots.idle()
        if not self._failed:
            await self._ports.spawner.blocking(self.log.close)

    async def caught_up(self) -> None:
        """Until this node knows what is committed, and all of it is in the image."""
        while self._core.high_watermark < 0 or self.feed.image.offset + 1 < self._core.high_watermark:
            self._settled.clear()
            await self._settled.wait()

    async def _all_committed(self) -> None:
        settled = asyncio.Event()
        self.feed.when_settled(lambda _: settled.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_MS / 1000):
                await settled.wait()

    async def _quiet(self) -> None:
        """Until nothing waits to be carried out."""
        while self._stepping:
            self._settled.clear()
            await self._settled.wait()

    # What the active controller writes

    def propose(self, records: Sequence[Message], image: ClusterImage, delta: ImageDelta) -> None:
        """`image`: after the records. They were found good on `feed.ahead`."""
        batch = metadata_batch(records, self._ports.clock.wall_ms())
        if len(batch) > metadata_batch_bytes_max:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The request changes too much at once.")
        self._append(batch, image.offset)
        self.feed.proposed(records, image, delta)
        self.fetches.look()

    def _append(self, batch: bytearray, last_offset: Offset) -> None:
        try:
            appended = self.log.append_trusted(batch, self.leader_epoch, self._ports.clock.wall_ms())
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log failed.") from failed
        invariant(appended.last_offset == last_offset, "the metadata log and the image count differently")
        self._sync_soon()

    # Events, one at a time

    async def ask(self, request: Request) -> Answer:
        """A peer's request, answered once what the answer rests on is durable."""
        if self._over:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "This node is stopping.")
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._tell(Requested(reply, request))
        return await reply

    def _tell(self, event: Event) -> None:
        if self._over:
            return
        self._inbox.append(event)
        if not self._stepping:
            self._stepping = True
            self._go_on()

    def _go_on(self) -> None:
        """Whoever told the event: a step that is half done, or a commit that cannot be applied, ends the node."""
        try:
            self._work_off()
        except Exception as broken:  # noqa: BLE001 whatever it is, the node ends by it
            self._fail(broken)

    def _work_off(self) -> None:
        while True:
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, PersistElection):
                    self._ports.spawner.spawn("quorum state", self._persist(effect))
                    return
                self._carry_out(effect)
            if not self._inbox:
                break
            self._effects.extend(self._core.step(self._inbox.popleft(), self._now()))
        self._stepping = False
        self._settled.set()
        self._set_timer()

    async def _persist(self, effect: PersistElection) -> None:
        await self._ports.spawner.blocking(write_election, self._ports.disk, effect.election)
        self._go_on()

    def _now(self) -> Now:
        return Now(self._ports.clock.monotonic_ms(), self._ports.rng.below(_CHANCES) / _CHANCES)

    def _set_timer(self) -> None:
        deadline_ms = self._core.deadline_ms
        if deadline_ms == self._timer_ms and self._timer is not None and not self._timer.cancelled():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, deadline_ms
        if deadline_ms is not None and not self._failed:
            wait_ms = max(0, deadline_ms - self._ports.clock.monotonic_ms())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        self._tell(Tick())

    # Effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case HighWatermarkAdvanced():
                self.feed.committed(effect.high_watermark)
                self.fetches.look()
                self.snapshots.look()
            case LeaderChanged():
                self._leader_changed(effect)
            case AppendEpochStart():
                self._append_control(effect.records)
                self._leading = True
                self.on_elected()
            case AppendVoters():
                self._append_control((effect.record,))
            case AppendFetched():
                self._append_fetched(effect)
            case TruncateTo():
                self._truncate(effect.offset)
            case Send():
                self._ports.spawner.spawn("quorum request", self._ask(effect))
            case Reply():
                self._reply(effect)
            case FetchSnapshot():
                self._ports.spawner.spawn("metadata snapshot", self._load_snapshot(effect))
            case PersistElection():
                raise InvariantBroken("an election is persisted off the loop")

    def _leader_changed(self, effect: LeaderChanged) -> None:
        own = self._member.voter.key.voter_id
        if self._leading and effect.leader_id != own:
            self._leading = False
            self.feed.give_up(KafkaError(ErrorCode.NOT_CONTROLLER, "This controller leads no more."))
            self.on_deposed()
        self.fetches.answer_all()
        if effect.leader_id not in (NO_BROKER, self._last_leader):
            former, self._last_leader = self._last_leader, effect.leader_id
            self.on_new_leader(former)
        if effect.leader_id == NO_BROKER:
            _log.info("nobody leads the metadata log in epoch %d yet", effect.leader_epoch)
        else:
            _log.info("node %d leads the metadata log in epoch %d", effect.leader_id, effect.leader_epoch)

    def _append_control(self, records: Sequence[Message]) -> None:
        last_offset = Offset(self.feed.end_offset + len(records) - 1)
        batch = MetadataBatch(last_offset, self.leader_epoch, list(records), [])
        self._append(control_batch(records, self._ports.clock.wall_ms()), last_offset)
        self._appended([batch])

    def _append_fetched(self, effect: AppendFetched) -> None:
        records = bytes(effect.records)
        try:
            self.log.append_as_follower(memoryview(records), self._ports.clock.wall_ms())
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            return
        self._appended(list(read_batches(records)))
        self._sync_soon()

    def _appended(self, batches: list[MetadataBatch]) -> None:
        self.feed.appended(batches)
        if self._loaded.voters.appended(batches):
            self._inbox.appendleft(VotersChanged(self.voters, batches[-1].last_offset))
        self.fetches.look()

    def _truncate(self, offset: Offset) -> None:
        _log.info(
            "the metadata log goes back from offset %d to %d: its leader knows better", self.log.log_end_offset, offset
        )
        try:
            self.log.truncate_to(offset)
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            return
        self.feed.truncated(offset)
        if self._loaded.voters.truncated(offset):
            self._inbox.appendleft(VotersChanged(self.voters, self._loaded.voters.newest_offset))

    async def _ask(self, effect: Send) -> None:
        self._tell(await self.others.ask(effect))

    def _reply(self, effect: Reply) -> None:
        reply = effect.token
        if isinstance(reply, asyncio.Future) and not reply.done():
            reply.set_result(effect.answer)

    # Snapshots

    def snapshot_progress(self, snapshot: SnapshotId) -> None:
        self._tell(SnapshotProgress(snapshot))

    async def _load_snapshot(self, effect: FetchSnapshot) -> None:
        try:
            image, voters = await self.snapshots.load(effect)
        except NoSnapshot as failed:
            _log.warning("the metadata snapshot of node %d could not be loaded: %s", effect.leader_id, failed)
            self._tell(SnapshotFailed(effect.snapshot))
            return
        except OSError as failed:
            self._fail(failed)
            return
        await self._quiet()
        if self._over or not self._core.is_loading(effect.snapshot):
            # Meanwhile we had doubts about the leader, or another one has the records after all.
            self._tell(SnapshotFailed(effect.snapshot))
            return
        self._begin_anew(effect.snapshot, image, voters)

    def _begin_anew(self, snapshot: SnapshotId, image: ClusterImage, voters: VoterHistory) -> None:
        try:
            self.log.truncate_fully_and_start_at(snapshot.end_offset)
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            return
        self.snapshots.known.append(snapshot)
        _log.info("loaded the metadata snapshot up to offset %d", image.offset)
        self.feed.reset(image)
        self._loaded.voters.replace_by(voters)
        self._tell(VotersChanged(self.voters, self._loaded.voters.newest_offset))
        self._tell(SnapshotLoaded(snapshot))
        self._tell(LogSynced())
        # What the log begins with is a new file: nothing is fetched before that is durable, too.
        self._sync_soon()

    # The disk

    def _sync_soon(self) -> None:
        if self._syncing is None and not self._failed and self.log.recovery_point < self.log.log_end_offset:
            self._syncing = self._ports.spawner.spawn("metadata sync", self._sync())

    async def _sync(self) -> None:
        """One fsync at a time: whatever is appended meanwhile is the next group."""
        try:
            while self.log.recovery_point < self.log.log_end_offset:
                work = self.log.begin_sync()
                await self._ports.spawner.blocking(work.run)
                self.log.finish_sync(work)
                self._tell(LogSynced())
        except (OSError, KafkaError) as failed:
            self._fail(failed)
        finally:
            self._syncing = None

    def _fail(self, failed: Exception) -> None:
        """What is in the log may or may not survive: nobody gets an answer, and the node stops."""
        if self._failed:
            return
        _log.critical("the metadata log failed, the node stops: %s", failed)
        self._failed = True
        self._leading = False
        self.feed.give_up(KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log failed."))
        self.on_deposed()
        self._ports.spawner.spawn("metadata log", _stop_node(failed))


async def _stop_node(failed: Exception) -> None:
    raise failed


def _nothing() -> None:
    pass


def _nobody_minds(_node_id: BrokerId) -> None:
    pass
