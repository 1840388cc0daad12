"""Admin calls against a real broker."""

from __future__ import annotations

import asyncio
import re

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from odradek.cli.main import main
from odradek.client import Producer as Client
from odradek.client import SendFailed
from odradek.client.admin import Admin, UnknownTopic
from odradek.client.async_admin import AsyncAdmin
from odradek.client.hints import HINTS
from odradek.client.records import ClientError
from odradek.testing import Embedded


@pytest.fixture
def cluster(broker: Embedded) -> Admin:
    return Admin(broker.bootstrap_servers)


def test_topics_are_created_once_listed_and_deleted(cluster: Admin) -> None:
    assert cluster.create_topic("made", 3, {"cleanup.policy": "compact"})
    assert not cluster.create_topic("made", 3)
    assert "made" in cluster.topics()
    assert cluster.partitions("made") == [0, 1, 2]
    with pytest.raises(ClientError, match=r"creating topic 'made' on .*already exists.*TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("made", 3, if_missing=False)
    cluster.delete_topics(name for name in ("made", "never-was"))
    assert "made" not in cluster.topics()
    cluster.delete_topics([])


def test_the_config_of_a_topic(cluster: Admin) -> None:
    cluster.create_topic("t", 1, {"retention.ms": "5000"})
    config = cluster.topic_config("t")
    assert (config["retention.ms"], config["cleanup.policy"]) == ("5000", "delete")


def test_internal_topics_are_listed_when_asked_for(cluster: Admin) -> None:
    commit(cluster, "any", {("any-topic", 0): 0})
    assert "__consumer_offsets" not in cluster.topics()
    assert "__consumer_offsets" in cluster.topics(include_internal=True)


def test_an_error_names_the_request_and_the_reason(cluster: Admin) -> None:
    with pytest.raises(ClientError, match=r"creating topic 'b!' on 127\.0\.0\.1:\d+: .*TOPIC_EXCEPTION"):
        cluster.create_topic("b!")
    with pytest.raises(ClientError, match=r"INVALID_CONFIG"):
        cluster.create_topic("b", config={"colour": "blue"})


def test_errors_have_a_hint(cluster: Admin) -> None:
    with pytest.raises(ClientError, match=r"\(TOPIC_EXCEPTION\); a topic's name is 1 to 249 letters of ") as told:
        cluster.create_topic("b!")
    assert told.value.hint == HINTS["TOPIC_EXCEPTION"]
    cluster.create_topic("hinted", 2)
    with pytest.raises(ClientError, match=r"already exists.*; use another name, or if_missing=True"):
        cluster.create_topic("hinted", if_missing=False)
    with pytest.raises(ClientError, match=r"\(INVALID_PARTITIONS\); .* can only grow"):
        cluster.add_partitions("hinted", 1)
    with pytest.raises(ClientError, match=r"\(INVALID_CONFIG\); Admin.topic_config and `odradek config get`"):
        cluster.set_topic_config("hinted", colour="blue")
    with pytest.raises(ClientError, match=r"UNKNOWN_TOPIC_OR_PART\); `odradek topic ls` shows"):
        cluster.topic_config("nowhere")
    with pytest.raises(ClientError, match=r"OFFSET_OUT_OF_RANGE\); Admin.start_offsets and Admin.end_offsets"):
        cluster.delete_records({("hinted", 0): 17})


def test_too_few_replicas_in_sync_are_reported_with_a_hint(broker: Embedded, topic: str) -> None:
    broker.fail("Produce", "NOT_ENOUGH_REPLICAS")
    with (
        Client(broker.bootstrap_servers, enable_idempotence=False, retries=0) as client,
        pytest.raises(
            SendFailed,
            match=r"\(NOT_ENOUGH_REPLICAS\); restart the brokers that are down \(see `odradek cluster health`",
        ),
    ):
        client.send(topic, b"x").result(60)


def test_a_group_with_members_is_not_deleted(cluster: Admin, topic: str) -> None:
    with Consumer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "group.id": topic}) as member:
        member.subscribe([topic])
        while not member.assignment():
            member.poll(0.1)
        with pytest.raises(ClientError, match=r"NON_EMPTY_GROUP\); stop the group's members first"):
            cluster.delete_group(topic)


@pytest.mark.parametrize("name", HINTS)
def test_hints_refer_only_to_existing_errors_commands_and_calls(name: str) -> None:
    assert hasattr(KafkaError, name)
    for words in re.findall(r"`odradek ([^`]*)`", HINTS[name]):
        told = CliRunner().invoke(main, [*words.split(), "--help"])
        assert told.exit_code == 0, told.output
    for call in re.findall(r"Admin\.(\w+)", HINTS[name]):
        assert hasattr(Admin, call)


def test_describing_an_unknown_topic_fails_and_does_not_create_it(cluster: Admin) -> None:
    for ask in (cluster.partitions, cluster.end_offsets, cluster.start_offsets):
        with pytest.raises(UnknownTopic, match='topic "nowhere" does not exist'):
            ask("nowhere")
    assert "nowhere" not in cluster.topics()


def test_a_topic_that_was_deleted_and_created_again_has_another_id(cluster: Admin) -> None:
    assert cluster.topic_id("again") is None
    cluster.create_topic("again", 1)
    first = cluster.topic_id("again")
    assert first == cluster.topic_id("again")
    cluster.delete_topics(["again"])
    cluster.create_topic("again", 1)
    assert cluster.topic_id("again") not in (None, first)


def test_offsets_of_each_partition(cluster: Admin) -> None:
    cluster.create_topic("counted", 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for _ in range(5):
        producer.produce("counted", b"x", partition=1)
    producer.flush()
    assert cluster.start_offsets("counted") == {0: 0, 1: 0}
    assert cluster.end_offsets("counted") == {0: 0, 1: 5}


def test_groups_and_what_they_committed(cluster: Admin) -> None:
    cluster.create_topic("any-topic", 2)
    commit(cluster, "app.one", {("any-topic", 0): 3, ("any-topic", 1): 4})
    commit(cluster, "other", {("any-topic", 0): 1})
    assert cluster.committed("app.one") == {("any-topic", 0): 3, ("any-topic", 1): 4}
    assert cluster.groups("app.") == ["app.one"]
    cluster.delete_group("app.one")
    assert cluster.committed("app.one") == {}
    cluster.delete_group("app.one")
    assert cluster.groups("app.") == []


def test_an_unreachable_broker_is_named() -> None:
    away = Admin("127.0.0.1:1", timeout_s=0.3)
    with pytest.raises(ClientError, match=r"listing groups on 127\.0\.0\.1:1: .*; is a broker running there, "):
        away.groups()


def commit(cluster: Admin, group: str, offsets: dict[tuple[str, int], int]) -> None:
    cluster.create_topic("any-topic", 2)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "group.id": group})
    places = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_partitions_configs_and_records_of_a_topic_can_be_changed(cluster: Admin, topic: str, bootstrap: str) -> None:
    cluster.add_partitions(topic, 4)
    assert cluster.partitions(topic) == [0, 1, 2, 3]
    cluster.set_topic_config(topic, retention_ms="5000", cleanup_policy="compact")
    cluster.set_topic_config(topic, cleanup_policy=None)
    config = cluster.topic_config(topic)
    assert (config["retention.ms"], config["cleanup.policy"]) == ("5000", "delete")
    with pytest.raises(ClientError, match=r"changing the config of .*INVALID_CONFIG"):
        cluster.set_topic_config(topic, no_such="1")
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(5):
        producer.produce(topic, b"x", partition=3)
    producer.flush()
    assert cluster.delete_records({(topic, 3): 2}) == {(topic, 3): 2}
    assert cluster.delete_records({(topic, 3): -1}) == {(topic, 3): 5}


def test_a_leader_that_answers_late_is_reported_as_a_timeout(broker: Embedded, topic: str) -> None:
    """librdkafka may then return an offset of -1001 without an error."""
    hasty = Admin(broker.bootstrap_servers, timeout_s=0.5)
    assert hasty.end_offsets(topic) == {0: 0, 1: 0, 2: 0}
    broker.delay("ListOffsets", 1_500)
    with pytest.raises(ClientError, match=r"asking for the offsets of .*_TIMED_OUT"):
        hasty.end_offsets(topic)


def test_set_committed_changes_where_a_group_continues(cluster: Admin, topic: str, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(5):
        producer.produce(topic, b"x", partition=1)
    producer.flush()
    cluster.set_committed(topic, {(topic, 1): 2})
    assert cluster.committed(topic) == {(topic, 1): 2}
    assert cluster.lag(topic) == {(topic, 1): 3}


def test_async_calls_are_the_same(topic: str, bootstrap: str) -> None:
    async def story() -> None:
        admin = AsyncAdmin(bootstrap)
        assert topic in await admin.topics()
        assert await admin.end_offsets(topic) == {0: 0, 1: 0, 2: 0} == await admin.start_offsets(topic)
        await admin.set_committed(f"{topic}-group", {(topic, 0): 0})
        assert await admin.lag(f"{topic}-group") == {(topic, 0): 0}
        await admin.delete_group(f"{topic}-group")
        assert await admin.groups(topic) == []
        with pytest.raises(UnknownTopic):
            await admin.partitions("nosuch")

    asyncio.run(story())
