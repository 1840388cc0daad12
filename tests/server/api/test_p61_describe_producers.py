from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p61_describe_producers import DescribeProducersRequest, TopicRequest
from support.admin_broker import AdminBroker
from support.data_broker import batch


def described(admin, topic, *indexes):
    answer = admin.ask(61, DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=indexes)]), 0)
    return answer.topics[0].partitions


def test_each_producer_and_how_far_it_has_come():
    admin = AdminBroker()
    admin.create_topic("orders", 2)
    partition = admin.host("orders", 0)
    admin.host("orders", 1)
    fields = {"producer_id": 4000, "producer_epoch": 3, "timestamp": 77}
    partition.append(memoryview(batch("a", "b", base_sequence=0, **fields)), 1, wall_ms=0)
    partition.append(memoryview(batch("c", base_sequence=2, **fields)), 1, wall_ms=0)
    partition.append(memoryview(batch("of nobody", timestamp=0)), 1, wall_ms=0)
    first, second = described(admin, "orders", 0, 1)
    (state,) = first.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp) == (4000, 3, 2, 77)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)
    assert (second.error_code, second.active_producers) == (0, [])


def test_producers_of_unknown_or_remote_partitions_are_refused():
    admin = AdminBroker()
    admin.create_topic("elsewhere")
    assert described(admin, "elsewhere", 0)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert described(admin, "elsewhere", 5)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(admin, "nowhere", 0)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(admin, "no good name", 0)[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
