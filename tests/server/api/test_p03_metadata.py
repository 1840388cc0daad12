import asyncio

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.metadata_records import BrokerRegistrationChangeRecord, FenceBrokerRecord, PartitionChangeRecord
from odradek.security.authorizer import Operation, ResourceType
from support.admin_broker import CLUSTER_ID, AdminBroker, Denying

NOT_REQUESTED = -(2**31)


def named(*names, **more):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def names(response):
    return [topic.name for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
def test_every_version_names_brokers_and_leaders(version):
    broker = AdminBroker()
    topic = broker.create_topic("orders", 2)
    response = broker.ask(3, named("orders"), version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "host1", 9093)]
    (answer,) = response.topics
    assert (answer.error_code, answer.name) == (0, "orders")
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in answer.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert answer.topic_id == (topic.topic_id if version >= 10 else ZERO_UUID)
    assert answer.partitions[0].leader_epoch == (0 if version >= 7 else -1)


def test_t15_in_version_0_an_empty_list_asks_for_all_topics():
    broker = AdminBroker()
    broker.create_topic("a")
    broker.create_topic("b")
    assert sorted(names(broker.ask(3, MetadataRequest(topics=[]), 0))) == ["a", "b"]


@pytest.mark.parametrize("version", range(1, 14))
def test_t15_from_version_1_null_asks_for_all_topics_and_empty_for_none(version):
    broker = AdminBroker()
    broker.create_topic("a")
    assert names(broker.ask(3, MetadataRequest(topics=None), version)) == ["a"]
    assert names(broker.ask(3, MetadataRequest(topics=[]), version)) == []


@pytest.mark.parametrize("version", range(14))
def test_t16_an_unknown_topic_is_created_and_usable_in_the_same_answer(version):
    broker = AdminBroker(settings={"num.partitions": "4"})
    (topic,) = broker.ask(3, named("fresh"), version).topics
    assert topic.error_code == 0
    assert [p.leader_id for p in topic.partitions] == [1, 1, 1, 1]
    assert "fresh" in broker.broker.image.topics


def test_t16_the_client_can_forbid_the_creation_from_version_4_on():
    broker = AdminBroker()
    (topic,) = broker.ask(3, named("fresh", allow_auto_topic_creation=False), 4).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "fresh" not in broker.broker.image.topics


def test_t16_the_broker_can_forbid_the_creation():
    broker = AdminBroker(settings={"auto.create.topics.enable": "false"})
    (topic,) = broker.ask(3, named("fresh"), 12).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "fresh" not in broker.broker.image.topics


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250])
def test_t16_an_invalid_name_is_said_to_be_invalid_and_not_created(name):
    broker = AdminBroker()
    (topic,) = broker.ask(3, named(name), 9).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not list(broker.broker.image.topics)


def test_t16_asking_for_all_topics_creates_nothing():
    broker = AdminBroker()
    broker.ask(3, MetadataRequest(topics=None), 9)
    assert not list(broker.broker.image.topics)


def test_t16_an_internal_topic_is_not_created_by_asking_for_it():
    broker = AdminBroker()
    (topic,) = broker.ask(3, named("__transaction_state"), 9).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.is_internal


def test_t16_a_creation_that_fails_says_why():
    broker = AdminBroker(settings={"default.replication.factor": "3"})
    (topic,) = broker.ask(3, named("fresh"), 9).topics
    assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    broker.controller.refuses = KafkaError(ErrorCode.NOT_CONTROLLER)
    (topic,) = broker.ask(3, named("fresh"), 9).topics
    assert topic.error_code == ErrorCode.NOT_CONTROLLER


def test_t16_metadata_waits_for_a_topic_that_another_node_has_just_created():
    """The controller has the topic and this broker will have it soon: it is neither created again nor unknown."""
    broker, ahead = AdminBroker(), AdminBroker()
    ahead.create_topic("fresh")

    def told_later(decide):
        asyncio.get_running_loop().call_soon(broker.create_topic, "fresh")
        return ahead.controller.submit(decide)

    broker.controller.submit = told_later
    (topic,) = broker.ask(3, named("fresh"), 9).topics
    assert (topic.error_code, [p.leader_id for p in topic.partitions]) == (0, [1])


def test_t16_a_created_topic_that_this_broker_does_not_know_in_time_gets_a_retriable_error(monkeypatch):
    """A broker cut off from the metadata answers in time, with an error that every client retries."""
    monkeypatch.setattr("odradek.server.broker.NEWS_TIMEOUT_S", 0.01)
    broker, ahead = AdminBroker(), AdminBroker()
    ahead.create_topic("fresh")
    broker.controller.submit = ahead.controller.submit
    (topic,) = broker.ask(3, named("fresh"), 9).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_t17_the_answering_broker_is_the_controller_unless_it_is_fenced_or_leaving():
    """Without a majority a broker does not learn that others died, so it names itself."""
    broker = AdminBroker(brokers=3)
    broker.register(4, unfenced=False)
    assert broker.ask(3, named(), 12).controller_id == 1
    epoch = broker.broker.image.brokers[1].broker_epoch
    broker.commit([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1)])
    told = {broker.ask(3, named(), 12).controller_id for _ in range(50)}
    assert told == {2, 3}


def test_t18_topic_ids_in_a_request_are_refused_before_version_12():
    broker = AdminBroker()
    topic_id = broker.create_topic("orders").topic_id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    for version in (10, 11):
        (topic,) = broker.ask(3, by_id, version).topics
        assert topic.error_code == ErrorCode.INVALID_REQUEST
    (topic,) = broker.ask(3, by_id, 12).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", topic_id)


def test_t18_an_unknown_topic_id_is_answered_with_that_id_and_no_name():
    unknown = bytes(range(16))
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=unknown, name=None)])
    (topic,) = AdminBroker().ask(3, by_id, 12).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)


def test_t19_metadata_has_the_leader_epoch_of_the_image_and_a_new_leader_a_higher_one():
    broker = AdminBroker(brokers=2)
    topic = broker.create_topic("orders", replicas=(1, 2))
    (before,) = broker.ask(3, named("orders"), 9).topics[0].partitions
    broker.commit([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=2)])
    (after,) = broker.ask(3, named("orders"), 9).topics[0].partitions
    assert (before.leader_id, after.leader_id) == (1, 2)
    assert after.leader_epoch > before.leader_epoch


def test_t21_cluster_id_from_version_2_on_and_no_authorized_operations_unless_asked():
    broker = AdminBroker()
    broker.create_topic("orders")
    assert broker.ask(3, named("orders"), 2).cluster_id == CLUSTER_ID
    response = broker.ask(3, named("orders"), 8)
    assert response.cluster_authorized_operations == NOT_REQUESTED
    assert response.topics[0].topic_authorized_operations == NOT_REQUESTED
    wanted = named("orders", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    response = broker.ask(3, wanted, 8)
    assert response.topics[0].topic_authorized_operations == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    assert response.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


def test_t21_a_fenced_broker_is_left_out_and_its_replicas_are_offline():
    broker = AdminBroker(brokers=2)
    broker.create_topic("orders", replicas=(1, 2))
    broker.commit([FenceBrokerRecord(id=2, epoch=broker.broker.image.brokers[2].broker_epoch)])
    response = broker.ask(3, named("orders"), 9)
    assert [b.node_id for b in response.brokers] == [1]
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.replica_nodes, partition.offline_replicas) == (0, [1, 2], [2])
    (oldest,) = broker.ask(3, named("orders"), 0).topics[0].partitions
    assert (oldest.error_code, oldest.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1])


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_leader_that_clients_cannot_reach(version, error):
    broker = AdminBroker()
    broker.register(2, listener="OTHER")
    broker.create_topic("orders", replicas=(2,))
    (partition,) = broker.ask(3, named("orders"), version).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (error, -1)


def test_a_partition_without_a_leader_is_leader_not_available():
    broker = AdminBroker()
    topic = broker.create_topic("orders")
    broker.commit([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=-1)])
    (partition,) = broker.ask(3, named("orders"), 9).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_a_topic_asked_for_twice_is_answered_once():
    broker = AdminBroker()
    broker.create_topic("orders")
    assert names(broker.ask(3, named("orders", "orders"), 9)) == ["orders"]


def test_a_client_without_describe_on_a_topic_does_not_learn_that_it_exists():
    secret = Denying(lambda operation, _type, name: operation is Operation.DESCRIBE and name == "secret")
    broker = AdminBroker(authorizer=secret)
    topic = broker.create_topic("secret")
    broker.create_topic("open")
    assert names(broker.ask(3, MetadataRequest(topics=None), 9)) == ["open"]
    (answer,) = broker.ask(3, named("secret"), 12).topics
    assert (answer.error_code, answer.name, answer.topic_id) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "secret",
        ZERO_UUID,
    )
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id, name=None)])
    (answer,) = broker.ask(3, by_id, 12).topics
    assert (answer.error_code, answer.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_creating_by_asking_needs_the_permission_to_create():
    broker = AdminBroker(authorizer=Denying(lambda operation, _type, _name: operation is Operation.CREATE))
    (topic,) = broker.ask(3, named("fresh"), 9).topics
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "fresh" not in broker.broker.image.topics
    only_cluster = Denying(lambda operation, kind, _name: operation is Operation.CREATE and kind is ResourceType.TOPIC)
    assert AdminBroker(authorizer=only_cluster).ask(3, named("fresh"), 9).topics[0].error_code == 0


def test_without_describe_on_the_cluster_no_cluster_operations_are_returned():
    hidden = Denying(lambda operation, kind, _name: (operation, kind) == (Operation.DESCRIBE, ResourceType.CLUSTER))
    response = AdminBroker(authorizer=hidden).ask(3, named(include_cluster_authorized_operations=True), 8)
    assert response.cluster_authorized_operations == 0
