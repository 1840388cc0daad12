"""A configuration changed while the broker runs takes effect: real node, real client."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from odradek.testing import Embedded


@pytest.fixture
def bootstrap():
    with Embedded() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap):
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic("orders", 1, 1)])["orders"].result()
    return client


def set_config(admin, kind, name, key, value):
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource = ConfigResource(
        kind, name, incremental_configs=[ConfigEntry(key, value, incremental_operation=operation)]
    )
    admin.incremental_alter_configs([resource])[resource].result()


def produce(bootstrap, **config):
    """What the broker said to 2,000 bytes."""
    outcome = []
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    producer.produce("orders", b"x" * 2000, on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(10) == 0
    return outcome[0].code() if outcome[0] else None


@pytest.mark.parametrize(
    ("kind", "name", "key"), [("topic", "orders", "max.message.bytes"), ("broker", "1", "message.max.bytes")]
)
def test_the_size_limit_follows_and_falls_back(admin, bootstrap, kind, name, key):
    assert produce(bootstrap) is None
    set_config(admin, kind, name, key, "1000")
    assert produce(bootstrap) == KafkaError.MSG_SIZE_TOO_LARGE
    set_config(admin, kind, name, key, None)
    assert produce(bootstrap) is None


def test_a_topic_of_one_replica_is_not_asked_for_two(admin, bootstrap):
    set_config(admin, "topic", "orders", "min.insync.replicas", "2")
    assert produce(bootstrap, acks="all", retries=0) is None


def test_the_minimum_of_replicas_in_sync_is_not_one_broker_s(admin):
    with pytest.raises(KafkaException, match=r"Broker-level min\.insync\.replicas cannot be altered"):
        set_config(admin, "broker", "1", "min.insync.replicas", "2")


def test_a_key_that_cannot_change_while_the_broker_runs_is_refused(admin):
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: \[num\.partitions\]"):
        set_config(admin, "broker", "1", "num.partitions", "2")
