"""Writes that are larger than one batch may be: groups on the engine, with a log in memory that has a limit."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Effects, Producer
from odradek.coordinator.engine import Engine
from odradek.coordinator.group.changes import PartitionKey
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.joining import Joining
from odradek.coordinator.group.shard import GroupShard
from odradek.metadata.image import ClusterImage, ImageDelta, TopicImage
from odradek.protocol.batch import iter_batches
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.p13_leave_group import MemberIdentity
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.txn_marker import TxnMarker
from support.memory_partition import MemoryPartition
from support.virtual_time import VirtualTime

MANY = 12_000
RETENTION_MS, CHECK_MS = 100_000, 1000
IMAGE = ClusterImage(cluster_id="c")
TOPIC_ID = b"t" * 16


class Groups(VirtualTime):
    def __init__(self) -> None:
        super().__init__()
        self.partition = MemoryPartition()
        config = GroupConfig(
            initial_rebalance_delay_ms=0,
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
        self.shard = GroupShard(config)
        self.engine = Engine(self.shard, self.partition, commit_timeout_ms=5000)
        self.answers: list = []
        self.perform(self.engine.finish_loading(self.now, IMAGE))

    def perform(self, effects: Effects) -> None:
        self.answers += [response for _, response in effects.replies]
        self.set_timers(effects)
        if effects.append is not None:
            append = effects.append
            self.engine.write(append, self.now, lambda error: self.perform(append.then(error, self.now)))

    def commit(self, group_id: str, *, count: int = MANY, topic: str = "wide", producer: Producer | None = None):
        partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(count)]
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID, partitions=partitions)],
        )
        if producer is None:
            self.perform(self.shard.commit_offsets(request, 9, None, self.now))
        else:
            self.perform(self.shard.commit_offsets_in_transaction(request, 5, producer, None, self.now))
        return {answer.error_code for topic in self.answers.pop().topics for answer in topic.partitions}

    def committed(self, group_id: str) -> int:
        return len(self.shard.committed_offsets(group_id))

    def reloaded(self) -> GroupShard:
        shard = GroupShard(GroupConfig())
        list(Engine(shard, self.partition, commit_timeout_ms=5000).load(bytes(self.partition.batches)))
        return shard

    def assert_batches_fit(self) -> None:
        sizes = [len(batch.data) for batch in iter_batches(self.partition.batches)]
        assert max(sizes) <= self.partition.batch_bytes_max


@pytest.fixture
def groups() -> Groups:
    return Groups()


def test_a_group_with_very_many_offsets_can_be_deleted(groups):
    """The tombstones together are larger than `max.message.bytes`: refused at every try."""
    group_id = "g" * 200
    for topic in ("one", "two"):
        groups.commit(group_id, count=MANY // 2, topic=topic)
    groups.perform(groups.shard.delete(group_id, None, groups.now))
    assert groups.answers == [None]
    assert groups.committed(group_id) == 0
    assert group_id not in groups.shard.groups
    assert group_id not in groups.reloaded().groups
    groups.assert_batches_fit()


def test_very_many_offsets_can_be_deleted(groups):
    group_id = "g" * 200
    for topic in ("one", "two"):
        groups.commit(group_id, count=MANY // 2, topic=topic)
    gone = [PartitionKey(topic, index) for topic in ("one", "two") for index in range(MANY // 2)][:-1]
    errors, turn = groups.shard.delete_offsets(group_id, gone, None, groups.now)
    groups.perform(turn)
    assert (set(errors.values()), groups.answers) == ({ErrorCode.NONE}, [None])
    assert groups.committed(group_id) == 1


def test_offsets_with_very_long_names_expire(groups):
    group_id = "ж" * 8000
    groups.commit(group_id, count=30)
    groups.commit(group_id, count=60, topic="again")
    groups.pass_time(RETENTION_MS + 10 * CHECK_MS)
    assert groups.shard.groups == {}
    groups.assert_batches_fit()


def test_offsets_of_a_deleted_topic_are_removed_however_long_their_names_are(groups):
    group_id = "ж" * 8000
    for topic in ("one", "two"):
        groups.commit(group_id, count=60, topic=topic)
    topic = TopicImage(topic_id=TOPIC_ID, name="wide", partitions=())
    groups.perform(groups.shard.metadata_changed(groups.now, IMAGE, ImageDelta(deleted=(topic,))))
    groups.pass_time(CHECK_MS)
    assert groups.committed(group_id) == 0


def test_one_commit_of_very_many_partitions_is_accepted(groups):
    """In one batch it would be refused at every retry."""
    assert groups.commit("g" * 200) == {ErrorCode.NONE}
    assert groups.committed("g" * 200) == MANY
    groups.assert_batches_fit()


def test_one_commit_of_very_many_partitions_in_a_transaction_counts_as_a_whole(groups):
    group_id = "g" * 200
    assert groups.commit(group_id, producer=Producer(7, 0)) == {ErrorCode.NONE}
    assert groups.committed(group_id) == 0
    marker = TxnMarker(producer_id=7, producer_epoch=0, coordinator_epoch=0, committed=True)
    groups.perform(groups.shard.end_transaction(marker, None, groups.now))
    assert groups.committed(group_id) == len(groups.reloaded().committed_offsets(group_id)) == MANY


def test_what_a_failed_write_left_in_the_log_is_in_memory_and_a_retry_does_the_rest(groups):
    groups.commit("readers", count=100)
    groups.partition.batch_bytes_max = 1000
    groups.partition.appends_until_refusal = 2
    groups.perform(groups.shard.delete("readers", None, groups.now))
    assert groups.answers.pop().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    left = groups.committed("readers")
    assert 0 < left < 100, "readers see what the high watermark has passed, without waiting for another write"
    assert left == len(groups.reloaded().committed_offsets("readers"))
    assert "readers" in groups.shard.groups
    groups.partition.appends_until_refusal = None
    groups.perform(groups.shard.delete("readers", None, groups.now))
    assert (groups.answers, groups.committed("readers")) == ([None], 0)


def joined(groups: Groups) -> str:
    request = JoinGroupRequest(
        group_id="wide",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="eager", metadata=b"m")],
    )
    event = Joining(
        request=request, client_id="c", client_host="h", new_member_id="alice", must_know_its_id=False,
        can_skip_assignment=True, to="alice",
    )  # fmt: skip
    groups.perform(groups.shard.join(event, groups.now))
    groups.pass_time(0)
    return groups.answers.pop().member_id


def test_an_assignment_that_fits_into_no_batch_is_refused_and_its_member_can_leave(groups):
    """One record holds the whole group."""
    member_id = joined(groups)
    request = SyncGroupRequest(
        group_id="wide",
        generation_id=1,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(2_000_000))],
    )
    groups.perform(groups.shard.sync(request, None, groups.now))
    assert groups.answers.pop().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    groups.perform(groups.shard.leave("wide", [MemberIdentity(member_id=member_id)], None, groups.now))
    assert [each.error_code for each in groups.answers.pop().members] == [ErrorCode.NONE]
    groups.perform(groups.shard.delete("wide", None, groups.now))
    assert groups.answers == [None]


def test_one_change_that_fits_into_no_batch_is_refused(groups):
    groups.partition.batch_bytes_max = 100
    assert groups.commit("g" * 200, count=1) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert groups.committed("g" * 200) == 0
    with pytest.raises(KafkaError):
        groups.shard.delete("g" * 200, None, groups.now)
