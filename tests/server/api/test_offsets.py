"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: on real logs in memory."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.protocol.batch import Codec, Record, encode_batch
from odradek.protocol.messages.p02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.p23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.metadata_records import PartitionChangeRecord
from odradek.security.authorizer import Operation
from support.admin_broker import AdminBroker, Denying

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NOW_MS = 10_000


def append(partition, *timestamps, codec=Codec.NONE):
    records = [Record(key=None, value=b"v", headers=(), timestamp=t, offset=n) for n, t in enumerate(timestamps)]
    return partition.append(memoryview(encode_batch(records, codec=codec)), 1, NOW_MS)


def hosting(name="orders", **more):
    broker = AdminBroker(**more)
    broker.create_topic(name)
    return broker, broker.host(name)


def change(broker, partition, **fields):
    broker.commit([PartitionChangeRecord(partition_id=0, topic_id=partition.topic_id, **fields)])
    partition.apply(broker.broker.image.topics[partition.topic].partitions[0], 0)


def list_offsets(broker, timestamp, version=11, *, topic="orders", replica_id=-1, isolation_level=0, leader_epoch=-1):
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=leader_epoch, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    (answer,) = broker.ask(2, request, version).topics[0].partitions
    return answer


class NoSearch:
    async def blocking(self, call, *_):
        raise AssertionError(f"{call} is slow")


def found(answer):
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_t41_earliest_and_latest_offsets(version):
    broker, partition = hosting()
    append(partition, 100, 200)
    append(partition, 300)
    partition.log.advance_log_start(1)
    assert found(list_offsets(broker, LATEST, version)) == (3, -1)
    assert found(list_offsets(broker, EARLIEST, version)) == (1, -1)
    assert list_offsets(broker, LATEST, version).leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_t41_by_time_the_record_inside_the_batch_is_found(codec):
    broker, partition = hosting()
    append(partition, 100, 200, 300, codec=codec)
    append(partition, 400, 500, codec=codec)
    assert found(list_offsets(broker, 0)) == (0, 100)
    assert found(list_offsets(broker, 150)) == (1, 200)
    assert found(list_offsets(broker, 300)) == (2, 300)
    assert found(list_offsets(broker, 401)) == (4, 500)


def test_t41_nothing_that_late_is_minus_one_without_an_error():
    broker, partition = hosting()
    assert found(list_offsets(broker, 0)) == (-1, -1)
    assert found(list_offsets(broker, MAX_TIMESTAMP)) == (-1, -1)
    append(partition, 100)
    assert found(list_offsets(broker, 101)) == (-1, -1)


def test_t41_the_largest_timestamp_may_lie_anywhere():
    broker, partition = hosting()
    append(partition, 100, 900, 200)
    append(partition, 300)
    assert found(list_offsets(broker, MAX_TIMESTAMP, 7)) == (1, 900)


def test_t41_without_tiered_storage_local_is_all_and_tiered_is_nothing():
    broker, partition = hosting()
    append(partition, 100)
    assert found(list_offsets(broker, EARLIEST_LOCAL)) == (0, -1)
    assert found(list_offsets(broker, LATEST_TIERED)) == (-1, -1)
    assert found(list_offsets(broker, PENDING_UPLOAD)) == (-1, -1)


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (PENDING_UPLOAD, 11)]
)
def test_t41_each_special_time_is_known_from_its_version_on(timestamp, first_version):
    broker, _ = hosting()
    assert list_offsets(broker, timestamp, first_version - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offsets(broker, timestamp, first_version).error_code == 0
    assert list_offsets(broker, -7, 11).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_only_replicas_see_uncommitted_offsets():
    broker, partition = hosting()
    append(partition, 100)
    append(partition, 200)
    partition.high_watermark = Offset(1)
    assert found(list_offsets(broker, LATEST)) == (1, -1)
    assert found(list_offsets(broker, 150)) == (-1, -1)
    assert found(list_offsets(broker, MAX_TIMESTAMP)) == (-1, -1)
    assert found(list_offsets(broker, LATEST, replica_id=2)) == (2, -1)
    assert found(list_offsets(broker, 150, replica_id=2)) == (1, 200)


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_t42_a_new_leader_waits_for_its_high_watermark(version, error):
    broker, partition = hosting()
    append(partition, 100)
    append(partition, 200)
    change(broker, partition, leader=1, isr=[1])
    assert partition.leader_epoch == 1
    partition.high_watermark = Offset(1)
    assert list_offsets(broker, LATEST, version).error_code == error
    assert list_offsets(broker, 150, version).error_code == error
    assert found(list_offsets(broker, 50, version)) == (0, 100)
    assert found(list_offsets(broker, EARLIEST, version)) == (0, -1)
    partition.high_watermark = Offset(2)
    assert found(list_offsets(broker, LATEST, version)) == (2, -1)


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, 0])
def test_t36_the_clients_leader_epoch_must_be_ours(timestamp):
    broker, partition = hosting()
    change(broker, partition, leader=1)
    assert list_offsets(broker, timestamp, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert list_offsets(broker, timestamp, leader_epoch=1).error_code == 0
    assert list_offsets(broker, timestamp, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_t20_a_partition_on_another_broker_is_not_leader_or_follower():
    broker = AdminBroker(brokers=2)
    broker.create_topic("orders", replicas=(2,))
    for timestamp in (LATEST, 0):
        assert list_offsets(broker, timestamp).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert list_offsets(broker, timestamp, topic="no").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_answers_only_the_debugging_replica_id():
    broker = AdminBroker(brokers=2)
    broker.create_topic("orders", replicas=(2, 1))
    broker.host("orders")
    assert list_offsets(broker, EARLIEST).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found(list_offsets(broker, EARLIEST, replica_id=-2)) == (0, -1)


def test_a_partition_asked_for_many_times_is_not_searched_many_times():
    broker, partition = hosting()
    append(partition, 100)
    broker.broker.spawner = NoSearch()
    often = [ListOffsetsPartition(partition_index=0, timestamp=100) for _ in range(5)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=often)])
    (answer,) = broker.ask(2, request, 11).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_asked_for_twice_is_refused():
    broker, _ = hosting()
    twice = [ListOffsetsPartition(partition_index=0, timestamp=t) for t in (LATEST, EARLIEST)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=twice)])
    (answer,) = broker.ask(2, request, 7).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), OSError("gone")])
def test_a_search_that_fails_returns_kafka_storage_error(failure):
    broker, partition = hosting()
    append(partition, 100)

    async def fails(*_):
        raise failure

    broker.broker.spawner.blocking = fails
    assert list_offsets(broker, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_listing_offsets_needs_permission_to_describe():
    broker, _ = hosting(authorizer=Denying(lambda operation, _type, _name: operation is Operation.DESCRIBE))
    assert list_offsets(broker, LATEST).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def end_of_epoch(broker, leader_epoch, version=4, *, current=-1, topic="orders"):
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=leader_epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    (answer,) = broker.ask(23, request, version).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_t43_the_largest_epoch_up_to_the_one_asked_for_and_its_end(version):
    broker, partition = hosting()
    append(partition, 100, 200)
    change(broker, partition, leader=1)
    change(broker, partition, leader=1)
    assert partition.leader_epoch == 2
    append(partition, 300)
    assert end_of_epoch(broker, 0, version) == (0, 0, 2)
    assert end_of_epoch(broker, 1, version)[2] == 2
    assert end_of_epoch(broker, 2, version) == (0, 2, 3)
    assert end_of_epoch(broker, 3, version) == (0, -1, -1)


def test_t43_the_clients_leader_epoch_must_be_ours():
    broker, partition = hosting()
    change(broker, partition, leader=1)
    assert end_of_epoch(broker, 0, current=0)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of_epoch(broker, 0, current=2)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of_epoch(broker, 0, topic="no")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_brokers_may_ask_for_epochs_without_permission_on_the_topic():
    no_topic = Denying(lambda operation, _type, _name: operation is Operation.DESCRIBE)
    assert end_of_epoch(hosting(authorizer=no_topic)[0], 0)[0] == 0
    nothing = Denying(lambda *_: True)
    assert end_of_epoch(hosting(authorizer=nothing)[0], 0)[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def delete_to(broker, offset, version=2, *, topic="orders"):
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)])
    (answer,) = broker.ask(21, request, version).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_t62_the_new_start_may_lie_inside_a_batch(version):
    broker, partition = hosting()
    append(partition, 100, 200, 300)
    assert delete_to(broker, 2, version) == (0, 2)
    assert partition.log.log_start_offset == 2
    assert found(list_offsets(broker, 0)) == (2, 300)


def test_t62_minus_one_is_the_high_watermark():
    broker, partition = hosting()
    append(partition, 100, 200)
    append(partition, 300)
    partition.high_watermark = Offset(2)
    assert delete_to(broker, -1) == (0, 2)


def test_t62_never_above_the_high_watermark_and_never_back():
    broker, partition = hosting()
    append(partition, 100, 200)
    append(partition, 300)
    partition.high_watermark = Offset(2)
    assert delete_to(broker, 3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(broker, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_to(broker, 1) == (0, 1)
    assert delete_to(broker, 0) == (0, 1)


@pytest.mark.parametrize(("policy", "error"), [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0), ("", 0)])
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(policy, error):
    broker = AdminBroker()
    broker.create_topic("orders", configs={"cleanup.policy": policy})
    broker.host("orders")
    assert delete_to(broker, 0)[0] == error


def test_records_of_internal_and_unknown_topics_are_not_deleted():
    broker, _ = hosting("__consumer_offsets")
    assert delete_to(broker, 0, topic="__consumer_offsets")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert delete_to(broker, 0, topic="no")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_records_needs_permission():
    broker, partition = hosting(authorizer=Denying(lambda operation, _type, _name: operation is Operation.DELETE))
    append(partition, 100)
    assert delete_to(broker, 1) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
    assert partition.log.log_start_offset == 0
