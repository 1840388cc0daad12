"""Replicas of one partition, wired in memory: a controller that decides at once, fetches as plain calls, no sockets."""

from __future__ import annotations

from dataclasses import replace

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.base.ports import Region
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.image import BrokerRegistration, PartitionImage
from odradek.protocol.batch import iter_batches, iter_records
from odradek.protocol.fetch import FetchPartition
from odradek.replication.following import Verdict, position, take
from odradek.replication.isr import LiveBrokers
from odradek.replication.partition import Partition
from odradek.replication.serving import Replica, read_for_follower
from support.admin_broker import SeededRng
from support.data_broker import batch

NAME = TopicPartition("t", 0)
TOPIC_ID = TopicId(b"\x07" * 16)
WALL_MS = 1_700_000_000_000
LAG_MS_MAX = 10_000
EVERYTHING = 1 << 20


def registration(broker_id, *, broker_epoch=1, fenced=False, in_controlled_shutdown=False):
    return BrokerRegistration(
        broker_id=BrokerId(broker_id),
        broker_epoch=broker_epoch,
        incarnation_id=bytes(16),
        listeners=(),
        features={},
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        directories=(),
    )


class Node:
    """One replica, on its own disk."""

    def __init__(self, broker_id, *, config=None, min_isr=1, disk=None):
        self.broker_id = BrokerId(broker_id)
        self.broker_epoch = 1
        self.disk = disk or MemoryDisk()
        self.config = config or LogConfig()
        self.min_isr = min_isr
        self.brokers = LiveBrokers()
        self.proposals = []
        self.sync_requests = []
        self.open()

    def open(self):
        self.logs = LogDirectory(self.disk, SeededRng())
        self.logs.load(lambda _: self.config, WALL_MS)
        self.partition = Partition(
            broker_id=self.broker_id,
            topic="t",
            index=0,
            topic_id=TOPIC_ID,
            log=self.logs.create_log(NAME, TOPIC_ID, self.config, WALL_MS),
            high_watermark=Offset(self.logs.high_watermarks.get(NAME, 0)),
            min_isr=self.min_isr,
            request_sync=self.sync_requests.append,
            brokers=self.brokers,
            propose=lambda _, proposal: self.proposals.append(proposal),
            lag_ms_max=LAG_MS_MAX,
        )

    def restart(self, *, lost_from=None):
        """The high watermark is that of the last checkpoint. Records are kept, or lost from offset `lost_from` on."""
        if lost_from is not None:
            self.log.truncation.to(lost_from)
        self.broker_epoch += 1
        self.open()

    def append(self, *values, acks=1):
        return self.partition.append(memoryview(batch(*values, timestamp=WALL_MS)), acks, WALL_MS)

    @property
    def log(self):
        return self.partition.log

    @property
    def end(self):
        return self.log.log_end_offset

    @property
    def high_watermark(self):
        return self.partition.high_watermark

    def raw(self, end_offset=None):
        """The bytes of the log."""
        data, offset = b"", self.log.log_start_offset
        end = self.end if end_offset is None else end_offset
        while offset < end:
            region = self.log.read(offset, EVERYTHING, end, True)
            chunk = region.read()
            region.release()
            data += chunk
            for header, _ in iter_batches(chunk):
                offset = header.next_offset
        return data

    def values(self, end_offset=None):
        found = []
        for _, data in iter_batches(self.raw(end_offset)):
            found += [record.value.decode() for record in iter_records(data)]
        return found

    def ask(self):
        """The fetch request of a follower, also if this replica is not a follower."""
        return FetchPartition(0, *position(self.partition), max_bytes=EVERYTHING)


class Replicas:
    """Some nodes, the controller's state of their partition, and a clock."""

    def __init__(self, count=3, *, min_isr=1, config=None, leader=1, isr=None):
        ids = tuple(BrokerId(number) for number in range(1, count + 1))
        self.nodes = {number: Node(number, min_isr=min_isr, config=config) for number in ids}
        self.now_ms = 1_000_000
        self.image = PartitionImage(
            index=0,
            replicas=ids,
            isr=ids if isr is None else tuple(BrokerId(member) for member in isr),
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
        )
        self.registered = {number: registration(number) for number in ids}
        self.tell_all()

    def __getitem__(self, broker_id):
        return self.nodes[broker_id]

    # The controller

    def change(self, **fields):
        """Change the controller's state. No replica has received the change yet."""
        if "leader" in fields:
            fields["leader_epoch"] = LeaderEpoch(self.image.leader_epoch + 1)
        self.image = replace(self.image, partition_epoch=self.image.partition_epoch + 1, **fields)

    def elect(self, leader, *, isr=None, tell=None):
        self.change(leader=BrokerId(leader), isr=self.image.isr if isr is None else tuple(isr))
        for node in self.nodes if tell is None else tell:
            self.tell(node)

    def register(self, broker_id, **fields):
        self.registered[broker_id] = registration(
            broker_id, **{"broker_epoch": self.nodes[broker_id].broker_epoch, **fields}
        )

    def tell(self, broker_id):
        node = self.nodes[broker_id]
        node.brokers.registered = dict(self.registered)
        node.partition.apply(self.image, self.now_ms)

    def tell_all(self):
        for broker_id in self.nodes:
            self.tell(broker_id)

    def decide(self, leader, *, answer=True):
        """The controller decides on the leader's oldest proposal. Returns the error code."""
        node = self.nodes[leader]
        proposal = node.proposals.pop(0)
        code = self._refusal(proposal)
        if code is ErrorCode.NONE:
            self.change(isr=proposal.members)
        if not answer:
            return code
        if code is ErrorCode.NONE:
            node.partition.isr_accepted(proposal, self.image.partition_epoch, self.now_ms)
            self.tell(leader)
        else:
            node.partition.isr_refused(proposal, code, self.now_ms)
        return code

    def _refusal(self, proposal):
        if proposal.leader_epoch < self.image.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch < self.image.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for broker_id, broker_epoch in proposal.isr:
            broker = self.registered[broker_id]
            if not broker.active or broker_epoch not in (-1, broker.broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    # Fetches

    def answer(self, follower, *, max_bytes=EVERYTHING):
        """The leader's response now to the follower's fetch."""
        node, leader = self.nodes[follower], self.nodes[self.nodes[follower].partition.leader_id]
        return self.answer_of(leader.broker_id, node.ask(), Replica(follower, node.broker_epoch), max_bytes=max_bytes)

    def answer_of(self, leader, fetch, replica, *, max_bytes=EVERYTHING):
        """A fetch response with the records as bytes, as a follower receives them."""
        answer = read_for_follower(
            self.nodes[leader].partition,
            fetch,
            Replica(*replica),
            max_bytes,
            whole_first_batch=True,
            arrived_ms=self.now_ms,
        )
        if isinstance(answer.records, Region):
            region = answer.records
            answer.records = memoryview(region.read())
            region.release()
        return answer

    def fetch(self, follower, *, max_bytes=EVERYTHING):
        """One round trip."""
        node = self.nodes[follower]
        asked = position(node.partition)
        return take(node.partition, asked, self.answer(follower, max_bytes=max_bytes), WALL_MS)

    def catch_up(self, *followers):
        """Fetch until nothing changes: the followers have all records and the high watermark."""
        before = None
        while before != (after := [(node.end, node.high_watermark) for node in self.nodes.values()]):
            before = after
            for follower in followers:
                assert self.fetch(follower) is Verdict.GO_ON
        assert all(self.nodes[follower].end == self.nodes[self.image.leader].end for follower in followers)
