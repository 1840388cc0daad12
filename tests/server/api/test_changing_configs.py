"""A configuration changed while the broker runs takes effect: real node, real client."""

import re

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from odradek.log.checkpoints import CLEANED_OFFSETS
from odradek.metadata.configs.definition import ConfigSource
from odradek.testing import Embedded


@pytest.fixture
def bootstrap():
    with Embedded() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap):
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    client.create_topics([NewTopic("orders", 1, 1)])["orders"].result()
    return client


def set_config(admin, kind, name, key, value):
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource = ConfigResource(
        kind, name, incremental_configs=[ConfigEntry(key, value, incremental_operation=operation)]
    )
    admin.incremental_alter_configs([resource])[resource].result()


def produce(bootstrap, **config):
    """The broker's answer to a record of 2,000 bytes."""
    outcome = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **config})
    producer.produce("orders", b"x" * 2000, on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(60) == 0
    return outcome[0].code() if outcome[0] else None


@pytest.mark.parametrize(
    ("kind", "name", "key"), [("topic", "orders", "max.message.bytes"), ("broker", "1", "message.max.bytes")]
)
def test_message_size_limit_changes_while_running_and_reverts_when_the_key_is_deleted(
    admin, bootstrap, kind, name, key
):
    assert produce(bootstrap) is None
    set_config(admin, kind, name, key, "1000")
    assert produce(bootstrap) == KafkaError.MSG_SIZE_TOO_LARGE
    set_config(admin, kind, name, key, None)
    assert produce(bootstrap) is None


def test_min_insync_replicas_of_2_does_not_refuse_writes_to_a_topic_with_one_replica(admin, bootstrap):
    set_config(admin, "topic", "orders", "min.insync.replicas", "2")
    assert produce(bootstrap, acks="all", retries=0) is None


def test_min_insync_replicas_cannot_be_set_for_one_broker(admin):
    with pytest.raises(KafkaException, match=r"Broker-level min\.insync\.replicas cannot be altered"):
        set_config(admin, "broker", "1", "min.insync.replicas", "2")


def test_a_key_that_cannot_change_while_the_broker_runs_is_refused(admin):
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: \[num\.partitions\]"):
        set_config(admin, "broker", "1", "num.partitions", "2")


def test_changed_configs_are_in_force_after_a_restart(tmp_path):
    """The cleaner uses the interval that was set for this broker, not the one in the file."""
    with Embedded(data=tmp_path, config={"log.cleaner.backoff.ms": 3_600_000}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        set_config(admin, "broker", "1", "log.cleaner.backoff.ms", "10")
    with Embedded(data=tmp_path, config={"log.cleaner.backoff.ms": 3_600_000}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        resource = ConfigResource("broker", "1")
        entry = admin.describe_configs([resource])[resource].result()["log.cleaner.backoff.ms"]
        assert (entry.value, entry.source, entry.is_read_only) == ("10", ConfigSource.DYNAMIC_BROKER, False)
        compacted = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}
        admin.create_topics([NewTopic("orders", 1, 1, config=compacted)])["orders"].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 0})
        for _ in range(10):
            producer.produce("orders", b"x" * 600, b"key")
            assert producer.flush(60) == 0
        cleaned = tmp_path / CLEANED_OFFSETS
        while not (cleaned.exists() and re.search(r"^orders 0 [1-9]", cleaned.read_text(), re.MULTILINE)):
            admin.list_topics(timeout=60)
