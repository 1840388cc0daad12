from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.partitions import create_partitions
from odradek.controller.topics import TopicDefaults, create_topics, delete_topics
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.messages.p19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from odradek.protocol.messages.p20_delete_topics import DeleteTopicState
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from odradek.protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord


def wanted(name: str, partitions: int = -1, replication: int = -1, configs=None, assignments=None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in assignments or ()],
    )


def create(cluster, *topics, validate_only=False):
    defaults = TopicDefaults(partitions=2, replication_factor=1)
    decision = create_topics(cluster.image, topics, defaults=defaults, rng=cluster.rng, validate_only=validate_only)
    return cluster.take(decision)


def codes(results) -> list[ErrorCode]:
    return [ErrorCode(result.error_code) for result in results]


def test_minus_one_means_the_defaults(cluster):
    (result,) = create(cluster, wanted("orders"))
    topic = cluster.image.topics["orders"]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert result.topic_id == topic.topic_id
    for partition in topic.partitions:
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == (bytes([1]) * 16,)


def test_records_come_in_kafkas_order(cluster):
    before = len(cluster.records)
    create(cluster, wanted("orders", configs={"retention.ms": "5"}))
    kinds = [type(record) for record in cluster.records[before:]]
    assert kinds == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert cluster.image.config(TOPIC_RESOURCE, "orders") == {"retention.ms": "5"}


def test_validate_only_writes_nothing(cluster):
    before = len(cluster.records)
    assert codes(create(cluster, wanted("orders"), wanted("bad!"), validate_only=True)) == [0, 17]
    assert len(cluster.records) == before


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (".", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("grün", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a\n", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 249, ErrorCode.NONE),
        ("...", ErrorCode.NONE),
        ("a-b_c.D9", ErrorCode.NONE),
        ("__cluster_metadata", ErrorCode.INVALID_REQUEST),
    ],
)
def test_names(cluster, name, code):
    assert codes(create(cluster, wanted(name))) == [code]


def test_names_that_collide_in_metrics_are_refused(cluster):
    assert codes(create(cluster, wanted("a.b"))) == [ErrorCode.NONE]
    assert codes(create(cluster, wanted("a_b"))) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert codes(create(cluster, wanted("c.d"), wanted("c_d"))) == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    cluster.take(delete_topics(cluster.image, [DeleteTopicState(name="a.b")]))
    assert codes(create(cluster, wanted("a_b"))) == [ErrorCode.NONE]


def test_existing_and_repeated_names_are_refused(cluster):
    create(cluster, wanted("orders"))
    assert codes(create(cluster, wanted("orders"))) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    results = create(cluster, wanted("twice"), wanted("once"), wanted("twice"))
    assert [(r.name, r.error_code) for r in results] == [("twice", ErrorCode.INVALID_REQUEST), ("once", 0)]
    assert "twice" not in cluster.image.topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", replication=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", replication=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (wanted("t", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (wanted("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (wanted("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (wanted("t", assignments=[(0, [1]), (1, [1])]), ErrorCode.NONE),
        (wanted("t", partitions=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", replication=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (wanted("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_create_requests_are_refused(cluster, topic, code):
    assert codes(create(cluster, topic)) == [code]


@pytest.mark.parametrize("counts", [(9_999, 2), (2**31 - 1, -(2**31)), (2**31 - 1,)])
def test_too_many_partitions_in_one_request(cluster, counts):
    with pytest.raises(KafkaError) as refused:
        create(cluster, *(wanted(f"t{number}", partitions=count) for number, count in enumerate(counts)))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_growing_too_many_topics_in_one_request(cluster):
    create(cluster, wanted("a"), wanted("b"))
    asked = [CreatePartitionsTopic(name=name, count=6_000, assignments=None) for name in "ab"]
    results = cluster.take(create_partitions(cluster.image, asked, rng=cluster.rng))
    assert codes(results) == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_creation_fails_when_no_broker_can_lead(empty):
    empty.add_broker(1, unfence=False)
    assert codes(create(empty, wanted("t"))) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert codes(create(empty, wanted("t", assignments=[(0, [1])]))) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_replicas_are_spread_over_racks_and_leaders_over_brokers(empty):
    for broker_id in range(1, 7):
        empty.add_broker(broker_id, rack="abc"[broker_id % 3])
    create(empty, wanted("t", partitions=12, replication=3))
    partitions = empty.image.topics["t"].partitions
    for partition in partitions:
        assert len({empty.image.brokers[b].rack for b in partition.replicas}) == 3
    leaders = [partition.leader for partition in partitions]
    assert {leaders.count(broker_id) for broker_id in range(1, 7)} == {2}


def test_a_fenced_broker_is_never_the_first_replica(empty):
    empty.add_broker(1, unfence=False, rack="a")
    empty.add_broker(2, rack="b")
    create(empty, wanted("t", partitions=8, replication=2), wanted("u", partitions=8, replication=1))
    for name in "tu":
        assert {(p.replicas[0], p.isr) for p in empty.image.topics[name].partitions} == {(2, (2,))}


def test_deleting_by_name_and_by_id(cluster):
    create(cluster, wanted("a"), wanted("b"))
    by_id = cluster.image.topics["b"].topic_id
    results = cluster.take(
        delete_topics(cluster.image, [DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=by_id)])
    )
    assert codes(results) == [0, 0]
    assert [r.name for r in results] == ["a", "b"]
    assert len(cluster.image.topics) == 0


def test_invalid_deletions_are_refused(cluster):
    create(cluster, wanted("a"))
    topic_id = cluster.image.topics["a"].topic_id
    asked = [
        DeleteTopicState(name="nope"),
        DeleteTopicState(name=None, topic_id=b"x" * 16),
        DeleteTopicState(name=None),
        DeleteTopicState(name="a", topic_id=topic_id),
        DeleteTopicState(name="a"),
        DeleteTopicState(name=None, topic_id=topic_id),
    ]
    assert codes(cluster.take(delete_topics(cluster.image, asked))) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert "a" in cluster.image.topics
    with pytest.raises(KafkaError) as refused:
        delete_topics(cluster.image, [DeleteTopicState(name="a")], enabled=False)
    assert refused.value.code is ErrorCode.TOPIC_DELETION_DISABLED


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (CreatePartitionsTopic(name="t", count=5, assignments=None), ErrorCode.NONE),
        (CreatePartitionsTopic(name="t", count=2, assignments=None), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic(name="t", count=1, assignments=None), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic(name="t", count=20_000, assignments=None), ErrorCode.POLICY_VIOLATION),
        (CreatePartitionsTopic(name="u", count=5, assignments=None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            CreatePartitionsTopic(name="t", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
            ErrorCode.NONE,
        ),
        (
            CreatePartitionsTopic(name="t", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_growing_a_topic(cluster, request_, code):
    create(cluster, wanted("t"))
    assert codes(cluster.take(create_partitions(cluster.image, [request_], rng=cluster.rng))) == [code]
    count = request_.count if code is ErrorCode.NONE else 2
    assert [p.index for p in cluster.image.topics["t"].partitions] == list(range(count))


def test_growing_a_topic_twice_in_one_request(cluster):
    create(cluster, wanted("t"))
    asked = [CreatePartitionsTopic(name="t", count=n, assignments=None) for n in (3, 4)]
    assert codes(cluster.take(create_partitions(cluster.image, asked, rng=cluster.rng))) == [ErrorCode.INVALID_REQUEST]


def test_leaders_are_spread_even_when_every_broker_has_every_replica(empty):
    for broker_id in range(1, 4):
        empty.add_broker(broker_id)
    create(empty, wanted("t", 3, 3))
    assert sorted(partition.leader for partition in empty.image.topics["t"].partitions) == [1, 2, 3]
