"""This node's part in the metadata quorum: carries out the effects of the quorum's core, and reports events to it.

`steps` keeps the order of events and effects: votes are on disk before they are answered. Only fsyncs of the log
(`metadata_log`) and requests to peers (`other_members`) run concurrently, and their results are events. Committed
records reach `feed`, on leaders, followers and observers alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.base.errors import ErrorCode, KafkaError, NotController, UnusableDirectory
from odradek.base.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import InvariantBroken
from odradek.base.limits import metadata_batch_bytes_max
from odradek.base.ports import Ports
from odradek.log.log import Log
from odradek.metadata.batches import MetadataBatch, control_batch, metadata_batch, read_batches
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.metadata.log_facts import MetadataLogFacts
from odradek.metadata.metadata_log import LoadedMetadata, load_metadata
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
    LogSynced,
    Requested,
    ShuttingDown,
    SnapshotFailed,
    SnapshotLoaded,
    SnapshotProgress,
    Started,
    VotersChanged,
)
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.messages import Answer, Request
from odradek.quorum.quorum import Quorum
from odradek.quorum.voters import Endpoint, VoterSet
from odradek.server.network.peers import Peers
from odradek.server.quorum.fetches import MetadataFetches
from odradek.server.quorum.member import Member
from odradek.server.quorum.metadata_log import QuorumLog
from odradek.server.quorum.other_members import QuorumPeers
from odradek.server.quorum.snapshots import MetadataSnapshots, NoSnapshot
from odradek.server.quorum.steps import QuorumSteps
from odradek.server.quorum.times import QuorumTimes

_log = logging.getLogger(__name__)

HAND_OVER_MS = 1_000


class MetadataQuorum:
    def __init__(self, member: Member, ports: Ports, peers: Peers) -> None:
        self._member = member
        self._ports = ports
        self.peers = peers
        self.others = QuorumPeers(member, peers, lambda: self.voters)
        self._steps = QuorumSteps(ports, carry_out=self._carry_out, on_broken=self._fail)
        self._loaded: LoadedMetadata
        self._log: QuorumLog
        self.feed = MetadataFeed(ClusterImage(cluster_id=member.cluster_id))
        self.fetches = MetadataFetches(self)
        self.snapshots = MetadataSnapshots(
            self,
            ports,
            own=member.voter.key,
            cluster_id=member.cluster_id,
            bytes_between=member.snapshot_every_bytes,
        )
        # Called when this node has become leader and written its first records, and when it stops leading.
        self.on_elected: Callable[[], None] = lambda: None
        self.on_deposed: Callable[[], None] = lambda: None
        # Called with the previous leader when another node becomes leader.
        self.on_new_leader: Callable[[BrokerId], None] = lambda _: None
        self.times = QuorumTimes(ports.clock)
        self._last_leader = NO_BROKER
        self._leading = False
        self.has_failed = False
        # The log and the election state are loaded.
        self.has_loaded = False

    # What others may know

    @property
    def log(self) -> Log:
        return self._loaded.log

    @property
    def core(self) -> Quorum:
        return self._steps.core

    @property
    def bootstrap(self) -> tuple[Message, ...]:
        return self._loaded.bootstrap

    @property
    def own_id(self) -> BrokerId:
        return self._member.voter.key.voter_id

    @property
    def cluster_id(self) -> str:
        return self._member.cluster_id

    @property
    def leader_id(self) -> BrokerId:
        return self.core.leader_id

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.core.leader_epoch

    @property
    def is_leading(self) -> bool:
        return self._leading

    @property
    def voters(self) -> VoterSet:
        return self._loaded.voters.newest

    def voters_at(self, offset: Offset) -> VoterSet:
        return self._loaded.voters.at(offset)

    def leader_endpoints(self) -> list[tuple[BrokerId, Endpoint]]:
        """For answers to requests that only the leader can handle."""
        leader_id = self.leader_id
        if leader_id == self.own_id:
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
        self._log = QuorumLog(
            self._loaded.log, ports, on_synced=lambda: self._steps.tell(LogSynced()), on_failed=self._fail
        )
        self._require_company()
        self.snapshots.known = self._loaded.snapshots
        facts = MetadataLogFacts(self._loaded.log, self.snapshots.known)
        self._steps.core = Quorum(
            self._member.voter,
            facts,
            cluster_id=self._member.cluster_id,
            timing=self._member.timing,
            bootstrap=tuple(self._member.bootstrap_by_id),
            joins=self._member.joins,
        )
        self.has_loaded = True
        self._steps.tell(
            Started(
                election=self._loaded.election,
                voters=self._loaded.voters.newest,
                voters_in_log=self._loaded.voters_in_log,
            )
        )
        self._steps.tell(LogSynced())
        self._log.sync_soon()
        await self._steps.quiet()

    def _require_company(self) -> None:
        """A node without bootstrap servers must be the only voter: it could not reach any other."""
        keys = self.voters.keys
        if self._member.bootstrap or keys == (self._member.voter.key,):
            return
        if not keys:
            raise UnusableDirectory("the directory names no voters: format it again")
        raise UnusableDirectory(
            f"the voters are {[key.voter_id for key in keys]} and this node is {self._member.voter.key.voter_id}: "
            "name them in controller.quorum.bootstrap.servers, unless the directory is another node's"
        )

    async def stop(self) -> None:
        """Commits proposed records if possible, hands over the leadership if possible, then closes the log."""
        if self._leading:
            await self._all_committed()
        self._steps.tell(ShuttingDown())
        await self._steps.quiet()
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_MS / 1000):
                while not self.core.handed_over:
                    await self._steps.after_the_next()
        await self._steps.quiet()
        self._steps.end()
        self.fetches.answer_all()
        await self._log.idle()
        await self.snapshots.idle()
        await self._log.close()

    async def caught_up(self) -> None:
        """Waits until this node knows the high watermark, and the image has everything below it."""
        while self.core.high_watermark < 0 or self.feed.image.offset + 1 < self.core.high_watermark:
            await self._steps.after_the_next()

    async def _all_committed(self) -> None:
        settled = asyncio.Event()
        self.feed.when_settled(lambda _: settled.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(HAND_OVER_MS / 1000):
                await settled.wait()

    # What the active controller writes

    def propose(self, records: Sequence[Message], image: ClusterImage, delta: ImageDelta) -> None:
        """`image`: with the records applied. They were validated on `feed.ahead`."""
        batch = metadata_batch(records, self._ports.clock.wall_ms())
        if len(batch) > metadata_batch_bytes_max:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The request changes too much at once.")
        self._log.append(batch, self.leader_epoch, image.offset)
        self.times.appended(image.offset, len(records))
        self.feed.proposed(records, image, delta)
        self.fetches.look()

    # What peers and people ask

    async def ask(self, request: Request) -> Answer:
        """A peer's request, answered once what the answer rests on is durable."""
        if self._steps.is_over:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "This node is stopping.")
        reply: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._steps.tell(Requested(reply, request))
        return await reply

    # Effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case HighWatermarkAdvanced():
                self.times.committed(effect.high_watermark)
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
                self._append_fetched(bytes(effect.records))
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
        self.times.leader_changed(effect.leader_id)
        if self._leading and effect.leader_id != self.own_id:
            self._leading = False
            self.feed.give_up(NotController(ErrorCode.NOT_CONTROLLER, "This node is no longer leader."))
            self.on_deposed()
        self.fetches.answer_all()
        if effect.leader_id not in (NO_BROKER, self._last_leader):
            former, self._last_leader = self._last_leader, effect.leader_id
            self.on_new_leader(former)
        if effect.leader_id == NO_BROKER:
            _log.info("the metadata log has no leader in epoch %d yet", effect.leader_epoch)
        else:
            _log.info("node %d leads the metadata log in epoch %d", effect.leader_id, effect.leader_epoch)

    def _append_control(self, records: Sequence[Message]) -> None:
        last_offset = Offset(self.feed.end_offset + len(records) - 1)
        batch = MetadataBatch(last_offset, self.leader_epoch, list(records), [])
        self._log.append(control_batch(records, self._ports.clock.wall_ms()), self.leader_epoch, last_offset)
        self.times.appended(last_offset, len(records))
        self._appended([batch])

    def _append_fetched(self, records: bytes) -> None:
        if self._log.append_fetched(records):
            batches = list(read_batches(records))
            self.times.fetched_records += sum(len(batch.records) + len(batch.control) for batch in batches)
            self._appended(batches)
            self._log.sync_soon()

    def _appended(self, batches: list[MetadataBatch]) -> None:
        self.feed.appended(batches)
        if self._loaded.voters.appended(batches):
            self._steps.tell_next(VotersChanged(self.voters, batches[-1].last_offset))
        self.fetches.look()

    def _truncate(self, offset: Offset) -> None:
        _log.info(
            "truncating the metadata log from %d to %d: it diverges from the leader's", self.log.log_end_offset, offset
        )
        if not self._log.truncate_to(offset):
            return
        self.feed.truncated(offset)
        if self._loaded.voters.truncated(offset):
            self._steps.tell_next(VotersChanged(self.voters, self._loaded.voters.newest_offset))

    async def _ask(self, effect: Send) -> None:
        self._steps.tell(await self.others.ask(effect))

    def _reply(self, effect: Reply) -> None:
        reply = effect.token
        if isinstance(reply, asyncio.Future) and not reply.done():
            reply.set_result(effect.answer)

    # Snapshots

    def snapshot_progress(self, snapshot: SnapshotId) -> None:
        self._steps.tell(SnapshotProgress(snapshot))

    async def _load_snapshot(self, effect: FetchSnapshot) -> None:
        try:
            image, voters = await self.snapshots.load(effect)
        except NoSnapshot as failed:
            _log.warning("the metadata snapshot of node %d could not be loaded: %s", effect.leader_id, failed)
            self._steps.tell(SnapshotFailed(effect.snapshot))
            return
        except OSError as failed:
            self._log.fail(failed)
            return
        await self._steps.quiet()
        if self._steps.is_over or not self.core.is_loading(effect.snapshot):
            # Meanwhile this node gave up the leader, or found a leader that still has the records.
            self._steps.tell(SnapshotFailed(effect.snapshot))
            return
        self._begin_anew(effect.snapshot, image, voters)

    def _begin_anew(self, snapshot: SnapshotId, image: ClusterImage, voters: VoterHistory) -> None:
        if not self._log.begin_anew_at(snapshot.end_offset):
            return
        self.snapshots.known.append(snapshot)
        self.times.loaded_snapshots += 1
        _log.info("loaded the metadata snapshot up to offset %d", image.offset)
        self.feed.reset(image)
        self._loaded.voters.replace_by(voters)
        self._steps.tell(VotersChanged(self.voters, self._loaded.voters.newest_offset))
        self._steps.tell(SnapshotLoaded(snapshot))
        self._steps.tell(LogSynced())
        # The log begins with a new file, which must be durable before anything is fetched.
        self._log.sync_soon()

    def _fail(self, failed: Exception) -> None:
        """No request is answered any more, and the node stops."""
        if self.has_failed:
            return
        self.has_failed = True
        _log.critical("the metadata log failed, the node stops: %s", failed)
        self._steps.end()
        self._leading = False
        self.feed.give_up(NotController(ErrorCode.NOT_CONTROLLER, "The metadata log failed."))
        self.on_deposed()
        self._ports.spawner.spawn("metadata log", _stop_node(failed))


async def _stop_node(failed: Exception) -> None:
    raise failed
