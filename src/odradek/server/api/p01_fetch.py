"""Fetch 4-18: whole batches from some partitions, at once or as soon as there are enough of them.

4-6 have no fetch sessions. 5 sends log start offsets. 9 sends the leader epoch the client knows. 10 brings zstd,
which an older client cannot read. 12 is flexible. 13 names topics by id.

11 sends the client's rack, and may read from followers (KIP-392). 12 sends the epoch that a follower fetched last, so
that the leader can report where the logs diverge. 15 sends the epoch of the follower's broker. 16 returns the current
leader.

The limits are KIP-74's: a partition gives at most its own limit, all together at most the request's, but the first
partition that has anything gives one batch whatever its size. A replica id of 0 and up is a follower: it reads up to
the log end, and its fetch offset means that it has everything before that offset.

A fetch that finds too little is parked. Nothing polls: a partition wakes its parked fetches when its high watermark
moves, its leadership ends or it is deleted. Fetches with read_committed wait for its last stable offset, fetches of
followers for its log end. A parked fetch reads once per turn of the event loop, so that one reply carries the records
of all appends in that turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from struct import Struct

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.ports import File, Region
from odradek.protocol.batch import CODEC_MASK
from odradek.protocol.compression import Codec
from odradek.protocol.fetch import FIRST_WITH_TOPIC_IDS, FetchRequest, TopicKey, decode_fetch_request
from odradek.protocol.fetch_response import FetchedPartition, encode_fetch_response
from odradek.protocol.leader_hints import CurrentLeader, NodeEndpoint
from odradek.replication.isolation import TXN_COMMITTED, isolation_of_consumer
from odradek.replication.partition import Partition
from odradek.replication.partition_table import HostedTopic
from odradek.replication.serving import Replica, read_for_follower, tell_high_watermark, told_high_watermark
from odradek.replication.traffic import TopicTraffic
from odradek.replication.waiting import Reader
from odradek.security.authorizer import Operation
from odradek.server.fetch_sessions import FetchPlan, Wanted
from odradek.server.network.request import BrokerContext, FrameApi, Parts
from odradek.server.topic_lookup import find_topic, find_topic_for_replica, missing_partition
from odradek.server.visible_cluster import visible_brokers

READ = Operation.READ
FIRST_WITH_ZSTD = 10
FIRST_FROM_FOLLOWERS = 11
FIRST_WITH_LEADERS = 16
NOT_HERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
ZSTD = int(Codec.ZSTD)
_batch_start = Struct(">qi9xh")  # base offset, length, (leader epoch, magic, checksum), attributes
_BATCH_OVERHEAD = 12
CODEC_CHUNK_BYTES = 4096  # of the log, read at once to look at codecs: many small batches


def handle(ctx: BrokerContext, frame: memoryview, position: int, end: int) -> Parts | None:
    request = decode_fetch_request(frame, ctx.version, position, end)
    arrived_ms = None
    if request.replica_id >= 0:
        arrived_ms = ctx.broker.clock.monotonic_ms()
        ctx.api = FOLLOWER_API
        ctx.broker.tally.follower_fetches[ctx.version].count += 1
    try:
        plan = ctx.broker.fetch_sessions.plan(request, by_topic_id=ctx.version >= FIRST_WITH_TOPIC_IDS)
    except KafkaError as refusal:
        ctx.note_error(refusal.code)
        return encode_fetch_response(ctx.version, ctx.correlation_id, (), error_code=refusal.code)
    fetch = Fetch(ctx, request, plan)
    found = fetch.read(arrived_ms=arrived_ms)
    if fetch.enough(found) or request.max_wait_ms <= 0 or not plan.wanted:
        return fetch.reply(found)
    found.release()
    ParkedFetch(fetch, found, request.max_wait_ms)
    return None


class Found:
    """What reading all partitions of a fetch gave."""

    __slots__ = ("bytes", "reads", "urgent")

    def __init__(self) -> None:
        self.reads: list[tuple[Wanted, Partition | None, FetchedPartition]] = []
        self.bytes = 0
        # An error, or other news that must be sent without waiting for more bytes. Or: no more can be given at once.
        self.urgent = False

    def release(self) -> None:
        for _, _, read in self.reads:
            _release(read)


class Fetch:
    __slots__ = (
        "_isolation",
        "_max_bytes",
        "_plan",
        "_rack",
        "_remembers_watermarks",
        "_tells_watermarks",
        "_zstd",
        "ctx",
        "min_bytes",
        "replica",
    )

    def __init__(self, ctx: BrokerContext, request: FetchRequest, plan: FetchPlan) -> None:
        self.ctx = ctx
        self._plan = plan
        config = ctx.broker.config
        self._max_bytes = min(request.max_bytes, config.fetch_max_bytes)
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        self._isolation = isolation_of_consumer(request.isolation_level)
        # The follower that fetches; None: a consumer.
        self.replica = Replica(request.replica_id, request.replica_epoch) if request.replica_id >= 0 else None
        selects = config.replica_selector_class is not None
        # The rack of a consumer that may be redirected to a replica near it.
        self._rack = request.rack_id if selects and self.replica is None else ""
        # If consumers read from followers, a follower gets each new high watermark at once.
        self._tells_watermarks = selects and self.replica is not None
        self._remembers_watermarks = self._tells_watermarks and not plan.session_id
        self._zstd = ZstdSearch() if ctx.version < FIRST_WITH_ZSTD else None

    def read(self, *, arrived_ms: int | None = None) -> Found:
        """`arrived_ms`: only at the first read for a follower's fetch, whose offset shows how far it has got."""
        found = Found()
        room = self._max_bytes
        if self._zstd is not None:
            self._zstd.begin()
        topic: TopicKey | None = None
        hosted: HostedTopic | KafkaError
        for wanted in self._plan.wanted:
            if wanted.topic != topic:
                topic = wanted.topic
                hosted = self._topic(topic)
            partition, read = self._read_one(
                hosted, wanted, room, whole_first_batch=found.bytes == 0, arrived_ms=arrived_ms
            )
            if isinstance(read.records, Region):
                size = read.records.length
                found.bytes += size
                room = room - size if size < room else 0
                if self._zstd is not None and not self._zstd.batches_left:
                    room = 0
                    found.urgent = True
            elif read.error_code or read.diverging_epoch is not None or read.preferred_read_replica >= 0:
                found.urgent = True
            if self._remembers_watermarks and arrived_ms is not None:
                self._recall_watermark(wanted, partition)
            if self._tells_watermarks and read.high_watermark != wanted.high_watermark:
                found.urgent = True
            if self.replica is not None and 0 <= wanted.fetch.log_start_offset < read.log_start_offset:
                # The follower cannot join the ISR before it knows the new log start offset.
                found.urgent = True
            found.reads.append((wanted, partition, read))
        return found

    def _recall_watermark(self, wanted: Wanted, partition: Partition | None) -> None:
        """Without this, a follower without a session would get the same watermark again at once, in a busy loop.

        Only when the fetch arrives: an older fetch of this follower may still be parked, and be answered on a dead
        connection.
        """
        if self.replica is not None and partition is not None:
            wanted.high_watermark = told_high_watermark(partition, self.replica)

    def _note_watermark(self, partition: Partition | None, read: FetchedPartition) -> None:
        if self.replica is not None and partition is not None:
            tell_high_watermark(partition, self.replica, read)

    def enough(self, found: Found) -> bool:
        return found.urgent or found.bytes >= self.min_bytes or self._tells_session

    @property
    def _tells_session(self) -> bool:
        """A new session's id is sent to a follower at once, without waiting for records.

        A follower closes the connection of a parked fetch when it has more partitions to fetch. It can end the old
        session only if it knows the id, and the broker does not notice the lost connection while it reads nothing.
        """
        return self.replica is not None and self._plan.begins_session

    def readable_bytes(self, wanted: Wanted) -> int | None:
        """How much one partition alone could give; None when it must be sent without waiting for more bytes."""
        hosted = self._topic(wanted.topic)
        if self._zstd is not None:
            self._zstd.begin()
        _, read = self._read_one(hosted, wanted, self._max_bytes, whole_first_batch=True)
        size = _release(read)
        if read.error_code or read.diverging_epoch is not None:
            return None
        return None if self._zstd is not None and not self._zstd.batches_left else size

    def wait_at(self, partition: Partition, reader: Reader) -> None:
        """Registers `reader`, to be woken when there may be more."""
        if self.replica is not None:
            partition.tail_readers[reader] = None
        if self.replica is None and self._isolation is TXN_COMMITTED:
            partition.stable_readers[reader] = None
        elif self.replica is None or self._tells_watermarks:
            partition.readers[reader] = None

    def reply(self, found: Found) -> Parts:
        topics: list[tuple[TopicKey, list[FetchedPartition]]] = []
        for wanted, partition, read in found.reads:
            if partition is None:
                self._count_missing()
            elif partition.traffic is not None:
                # Not in a method, since a call costs more than the additions.
                partition.traffic.fetch_requests.count += 1
                if isinstance(read.records, Region):
                    if self.replica is None:
                        partition.traffic.bytes_out.count += read.records.length
                    else:
                        self._count_replicated(partition, partition.traffic, read.records.length)
                elif read.error_code:
                    partition.traffic.unreadable(read.error_code)
            if not self._plan.answers(wanted, read):
                continue
            if self._remembers_watermarks:
                self._note_watermark(partition, read)
            if not topics or topics[-1][0] != wanted.topic:
                topics.append((wanted.topic, []))
            topics[-1][1].append(read)
        endpoints: list[NodeEndpoint] = []
        if found.urgent:
            self.ctx.errors = [read.error_code for _, _, read in found.reads if read.error_code]
            if self.ctx.version >= FIRST_WITH_LEADERS:
                endpoints = self._name_leaders(found)
        return encode_fetch_response(
            self.ctx.version,
            self.ctx.correlation_id,
            topics,
            session_id=self._plan.session_id,
            node_endpoints=endpoints,
        )

    def _count_missing(self) -> None:
        if self.ctx.broker.partitions.traffic is not None:
            self.ctx.broker.partitions.traffic.fetched_missing()

    def _count_replicated(self, partition: Partition, traffic: TopicTraffic, size: int) -> None:
        traffic.total.replication_bytes_out.count += size
        adding = () if partition.image is None else partition.image.adding
        if self.replica is not None and self.replica.broker_id in adding:
            traffic.total.reassignment_bytes_out.count += size

    def _name_leaders(self, found: Found) -> list[NodeEndpoint]:
        """Sets the current leader of each partition that this broker does not lead; returns the leaders' endpoints."""
        leaders: dict[int, None] = {}
        for _, partition, read in found.reads:
            if partition is not None and read.error_code in NOT_HERE and partition.leader_id != NO_BROKER:
                read.current_leader = CurrentLeader(partition.leader_id, partition.leader_epoch)
                leaders[partition.leader_id] = None
        if not leaders:
            return []
        return [
            NodeEndpoint(broker.broker_id, broker.host, broker.port, broker.rack)
            for broker in visible_brokers(self.ctx.broker.image, self.ctx.broker.listener_name)
            if broker.broker_id in leaders
        ]

    def _topic(self, topic: TopicKey) -> HostedTopic | KafkaError:
        if self.replica is not None:
            return find_topic_for_replica(self.ctx, topic)
        return find_topic(self.ctx, topic, READ)

    def _read_one(
        self,
        hosted: HostedTopic | KafkaError,
        wanted: Wanted,
        room: int,
        *,
        whole_first_batch: bool,
        arrived_ms: int | None = None,
    ) -> tuple[Partition | None, FetchedPartition]:
        index, leader_epoch, offset, _, _, max_bytes = wanted.fetch
        if isinstance(hosted, KafkaError):
            return None, FetchedPartition(index, hosted.code)
        partition = hosted.partitions.get(index)
        if partition is None:
            return None, FetchedPartition(index, missing_partition(self.ctx, hosted, index))
        if self.replica is not None:
            return partition, read_for_follower(
                partition,
                wanted.fetch,
                self.replica,
                min(max_bytes, room),
                whole_first_batch=whole_first_batch,
                arrived_ms=arrived_ms,
            )
        if self._rack and partition.leading is not None:
            nearest = partition.leading.nearest(self._rack, offset)
            if nearest is not None and not partition.epoch_error(leader_epoch):
                return partition, _elsewhere(partition, nearest)
        read = partition.read(
            offset,
            min(max_bytes, room),
            leader_epoch,
            self._isolation,
            whole_first_batch=whole_first_batch,
            from_follower=self.ctx.version >= FIRST_FROM_FOLLOWERS,
        )
        if self._zstd is not None and isinstance(read.records, Region):
            refusal = self._zstd.error(partition, read.records)
            if refusal:
                _release(read)
                return partition, FetchedPartition(index, refusal)
        return partition, read


def _elsewhere(partition: Partition, replica: BrokerId) -> FetchedPartition:
    return FetchedPartition(
        partition.index,
        ErrorCode.NONE,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        preferred_read_replica=replica,
    )


def _release(read: FetchedPartition) -> int:
    """Releases records that will not be sent. Returns their size in bytes."""
    if not isinstance(read.records, Region):
        return 0
    read.records.release()
    return read.records.length


class ParkedFetch:
    """Waits for enough bytes, an error, or its deadline."""

    __slots__ = ("_deadline", "_fetch", "_look_due", "_moved", "_sizes", "_slot", "_wanted")

    def __init__(self, fetch: Fetch, found: Found, max_wait_ms: int) -> None:
        self._fetch = fetch
        # Without an error each has its partition.
        self._wanted = {partition: wanted for wanted, partition, _ in found.reads if partition is not None}
        # Readable bytes of each partition; only partitions that changed are read again.
        self._sizes = {
            partition: read.records.length if isinstance(read.records, Region) else 0
            for _, partition, read in found.reads
            if partition is not None
        }
        self._moved: dict[Partition, None] = {}
        self._look_due = False
        self._slot = fetch.ctx.connection.park(stop_reading=True, on_lost=self._stop_waiting)
        self._deadline = asyncio.get_running_loop().call_later(max_wait_ms / 1000, self._time_is_over)
        for partition in self._wanted:
            fetch.wait_at(partition, self)
        fetch.ctx.broker.parked_fetches[self] = None

    def may_read_more(self, partition: Partition) -> None:
        self._moved[partition] = None
        if not self._look_due:
            self._look_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _time_is_over(self) -> None:
        tally = self._fetch.ctx.broker.tally
        of_consumer = self._fetch.replica is None
        (tally.expired_consumer_fetches if of_consumer else tally.expired_follower_fetches).count += 1
        self.answer()

    def answer(self) -> None:
        """Answers with the records that are there now."""
        self._answer_with(self._fetch.read())

    def _look(self) -> None:
        self._look_due = False
        if not self._wanted or not self._may_be_enough():
            return
        found = self._fetch.read()
        if self._fetch.enough(found):
            self._answer_with(found)
        else:
            found.release()

    def _may_be_enough(self) -> bool:
        """Reads only the partitions that changed, since there may be many others."""
        moved, self._moved = self._moved, {}
        if len(self._wanted) == 1 or self._fetch.min_bytes <= 1:
            return True
        for partition in moved:
            size = self._fetch.readable_bytes(self._wanted[partition])
            if size is None:
                return True
            self._sizes[partition] = size
        return sum(self._sizes.values()) >= self._fetch.min_bytes

    def _answer_with(self, found: Found) -> None:
        self._stop_waiting()
        self._slot.fill(self._fetch.reply(found))

    def _stop_waiting(self) -> None:
        self._deadline.cancel()
        for partition in self._wanted:
            partition.readers.pop(self, None)
            partition.stable_readers.pop(self, None)
            partition.tail_readers.pop(self, None)
        self._wanted = {}
        del self._fetch.ctx.broker.parked_fetches[self]


class ZstdSearch:
    """Looks for zstd in what is read for a client that cannot read it.

    The event loop waits meanwhile, so each read of a fetch looks at `fetch_checked_batches_max` batches, and gives no
    more than these. What was looked at is remembered, because a parked fetch reads the same batches again and again.
    """

    __slots__ = ("_looked", "batches_left")

    def __init__(self) -> None:
        self.batches_left = 0
        # The file, and the positions between which no batch has zstd.
        self._looked: dict[Partition, tuple[File, int, int]] = {}

    def begin(self) -> None:
        """Before each read of the fetch."""
        self.batches_left = limits.fetch_checked_batches_max

    def error(self, partition: Partition, region: Region) -> ErrorCode:
        """Shortens the region if there are too many batches in it."""
        start = position = region.position
        end = start + region.length
        looked = self._looked.get(partition)
        if looked is not None and looked[0] is region.file and looked[1] == start:
            position = min(looked[2], end)
        chunk, chunk_start = b"", position
        while position < end and self.batches_left:
            at = position - chunk_start
            if at + _batch_start.size > len(chunk):
                try:
                    chunk_start, at, chunk = position, 0, region.file.pread(CODEC_CHUNK_BYTES, position)
                except OSError:
                    return ErrorCode.KAFKA_STORAGE_ERROR
                if len(chunk) < _batch_start.size:
                    return ErrorCode.CORRUPT_MESSAGE
            _, length, attributes = _batch_start.unpack_from(chunk, at)
            if length <= 0:
                return ErrorCode.CORRUPT_MESSAGE
            if attributes & CODEC_MASK == ZSTD:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            position += _BATCH_OVERHEAD + length
            self.batches_left -= 1
        self._looked[partition] = (region.file, start, position)
        region.length = min(position, end) - start
        return ErrorCode.NONE


API = FrameApi(key=1, versions=(4, 18), advertised=(4, 18), handle=handle)
# The API of a follower's request: Kafka has metrics of its own for these.
FOLLOWER_API = replace(API)
