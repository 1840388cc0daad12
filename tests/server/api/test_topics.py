"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders."""

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.metadata.configs.definition import ConfigSource
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.p43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.metadata_records import PartitionChangeRecord
from odradek.security.authorizer import Operation, ResourceType
from support.admin_broker import AdminBroker, Denying


def create(*topics, **more):
    return CreateTopicsRequest(topics=list(topics), **more)


def topic(name, partitions=-1, replicas=-1, **configs):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def errors(results):
    return [(result.name, result.error_code) for result in results]


@pytest.mark.parametrize("version", range(2, 8))
def test_t61_minus_one_stands_for_the_brokers_defaults(version):
    broker = AdminBroker(settings={"num.partitions": "3"})
    (result,) = broker.ask(19, create(topic("orders")), version).topics
    created = broker.broker.image.topics["orders"]
    assert len(created.partitions) == 3
    assert (result.error_code, result.error_message) == (0, None)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert result.topic_id == (created.topic_id if version >= 7 else ZERO_UUID)


def test_t61_validate_only_decides_and_does_nothing():
    broker = AdminBroker()
    results = broker.ask(19, create(topic("good"), topic("b ad"), validate_only=True), 7).topics
    assert errors(results) == [("good", 0), ("b ad", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert not list(broker.broker.image.topics)


def test_t61_from_version_5_the_answer_has_the_configuration():
    broker = AdminBroker(settings={"log.segment.bytes": "2097152"})
    (result,) = broker.ask(19, create(topic("orders", retention_ms="1000")), 5).topics
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert shown["retention.ms"] == ("1000", ConfigSource.TOPIC)
    assert shown["segment.bytes"] == ("2097152", ConfigSource.STATIC_BROKER)
    assert shown["preallocate"] == ("false", ConfigSource.DEFAULT)


def test_t61_names_that_differ_in_dot_and_underscore_collide():
    broker = AdminBroker()
    broker.create_topic("a.b")
    (result,) = broker.ask(19, create(topic("a_b")), 7).topics
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("orders", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("orders", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("orders", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("orders", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic("orders", no_such_key="1"), ErrorCode.INVALID_CONFIG),
        (topic("exists"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_topics_are_refused(wanted, error):
    broker = AdminBroker()
    broker.create_topic("exists")
    (result,) = broker.ask(19, create(wanted), 7).topics
    assert result.error_code == error
    assert result.error_message


def test_a_topic_named_twice_is_refused_once():
    results = AdminBroker().ask(19, create(topic("twice"), topic("twice"), topic("once")), 7).topics
    assert sorted(errors(results)) == [("once", 0), ("twice", ErrorCode.INVALID_REQUEST)]


def test_creating_needs_the_permission_of_the_cluster_or_of_the_topic():
    mine = Denying(
        lambda operation, kind, name: operation is Operation.CREATE and (kind is ResourceType.CLUSTER or name != "mine")
    )
    results = AdminBroker(authorizer=mine).ask(19, create(topic("mine"), topic("theirs")), 7).topics
    assert errors(results) == [("mine", 0), ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


def test_without_describe_configs_the_answer_has_no_configuration():
    blind = Denying(lambda operation, _type, _name: operation is Operation.DESCRIBE_CONFIGS)
    (result,) = AdminBroker(authorizer=blind).ask(19, create(topic("orders")), 7).topics
    assert (result.error_code, result.num_partitions, result.configs) == (0, -1, [])
    assert result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_without_an_active_controller_each_topic_gets_not_controller():
    broker = AdminBroker()
    broker.create_topic("exists")
    broker.controller.refuses = KafkaError(ErrorCode.NOT_CONTROLLER, "not active")
    assert errors(broker.ask(19, create(topic("a"), topic("b")), 7).topics) == [
        ("a", ErrorCode.NOT_CONTROLLER),
        ("b", ErrorCode.NOT_CONTROLLER),
    ]
    deleting = DeleteTopicsRequest(topics=[DeleteTopicState(name="exists")])
    assert errors(broker.ask(20, deleting, 6).responses) == [("exists", ErrorCode.NOT_CONTROLLER)]
    growing = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="exists", count=2, assignments=None)])
    assert errors(broker.ask(37, growing, 3).results) == [("exists", ErrorCode.NOT_CONTROLLER)]


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(version):
    broker = AdminBroker()
    broker.create_topic("orders")
    by_name = DeleteTopicsRequest(
        topic_names=["orders", "missing"], topics=[DeleteTopicState(name="orders"), DeleteTopicState(name="missing")]
    )
    assert sorted(errors(broker.ask(20, by_name, version).responses)) == [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0),
    ]
    assert "orders" not in broker.broker.image.topics


def test_topics_are_deleted_by_id_in_version_6():
    broker = AdminBroker()
    topic_id = broker.create_topic("orders").topic_id
    unknown = bytes(range(16))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=unknown)])
    results = broker.ask(20, request, 6).responses
    assert [(r.name, r.topic_id, r.error_code) for r in results] == [
        ("orders", topic_id, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize(
    "state",
    [
        DeleteTopicState(),
        DeleteTopicState(name="orders", topic_id=bytes(range(16))),
    ],
)
def test_a_topic_is_named_by_name_or_id_and_not_by_both(state):
    (result,) = AdminBroker().ask(20, DeleteTopicsRequest(topics=[state]), 6).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(version, error):
    broker = AdminBroker(settings={"delete.topic.enable": "false"})
    broker.create_topic("orders")
    assert errors(broker.ask(20, DeleteTopicsRequest(topic_names=["orders"]), version).responses) == [("orders", error)]
    assert "orders" in broker.broker.image.topics


def test_deleting_without_permission_does_not_reveal_whether_the_topic_exists():
    broker = AdminBroker(authorizer=Denying(lambda *_: True))
    topic_id = broker.create_topic("orders").topic_id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="orders"), DeleteTopicState(name="missing"), DeleteTopicState(topic_id=topic_id)]
    )
    results = broker.ask(20, request, 6).responses
    assert errors(results) == [
        ("orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("missing", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert "orders" in broker.broker.image.topics


def test_deleting_with_permission_to_describe_only():
    broker = AdminBroker(authorizer=Denying(lambda operation, _type, _name: operation is Operation.DELETE))
    topic_id = broker.create_topic("orders").topic_id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="missing"), DeleteTopicState(topic_id=topic_id)])
    assert sorted(errors(broker.ask(20, request, 6).responses)) == [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


@pytest.mark.parametrize("version", range(4))
def test_t61_growing_a_topic_answers_for_each_topic(version):
    broker = AdminBroker()
    broker.create_topic("orders", 2)
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name="orders", count=5, assignments=None),
            CreatePartitionsTopic(name="missing", count=5, assignments=None),
        ]
    )
    assert errors(broker.ask(37, request, version).results) == [
        ("orders", 0),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(broker.broker.image.topics["orders"].partitions) == 5


def test_a_topic_does_not_shrink_and_validate_only_does_not_grow_it():
    broker = AdminBroker()
    broker.create_topic("orders", 2)

    def grow(count, *, validate_only=False):
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="orders", count=count, assignments=None)], validate_only=validate_only
        )
        return broker.ask(37, request, 3).results[0].error_code

    assert grow(1) == ErrorCode.INVALID_PARTITIONS
    assert grow(2) == ErrorCode.INVALID_PARTITIONS
    assert grow(3, validate_only=True) == 0
    assert len(broker.broker.image.topics["orders"].partitions) == 2


def test_growing_needs_permission_to_alter_the_topic():
    broker = AdminBroker(authorizer=Denying(lambda operation, _type, name: name == "theirs"))
    broker.create_topic("mine")
    broker.create_topic("theirs")
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("theirs", "mine")]
    )
    assert errors(broker.ask(37, request, 3).results) == [
        ("mine", 0),
        ("theirs", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert len(broker.broker.image.topics["theirs"].partitions) == 1


def elected(response):
    return [
        (r.topic, p.partition_id, p.error_code) for r in response.replica_election_results for p in r.partition_result
    ]


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_is_elected(version):
    broker = AdminBroker(brokers=2)
    topic = broker.create_topic("orders", 2, replicas=(1, 2))
    broker.commit([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=2)])
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0, 1, 9])])
    assert elected(broker.ask(43, request, version)) == [
        ("orders", 0, 0),
        ("orders", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert broker.broker.image.topics["orders"].partitions[0].leader == 1


def test_electing_all_partitions_leaves_out_partitions_that_need_no_election():
    broker = AdminBroker(brokers=2)
    topic = broker.create_topic("orders", 2, replicas=(1, 2))
    broker.commit([PartitionChangeRecord(partition_id=1, topic_id=topic.topic_id, leader=2)])
    assert elected(broker.ask(43, ElectLeadersRequest(topic_partitions=None), 2)) == [("orders", 1, 0)]


def test_an_election_needs_permission_to_alter_the_cluster_and_a_known_type():
    wanted = [TopicPartitions(topic="orders", partitions=[0])]
    denied = AdminBroker(authorizer=Denying(lambda *_: True)).ask(43, ElectLeadersRequest(topic_partitions=wanted), 2)
    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert elected(denied) == [("orders", 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    strange = AdminBroker().ask(43, ElectLeadersRequest(election_type=7, topic_partitions=wanted), 2)
    assert strange.error_code == ErrorCode.INVALID_REQUEST
