"""Clients read a topic during and after compaction, also from offsets inside its gaps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from support import compacted_topic, small_world
from support.broker_process import BrokerProcess
from support.compacted_topic import TOPIC

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from commits import FIND_COORDINATOR, GROUP, KEYS, commit_all, committed, stored
from wire import Client, string

from support.waiting import wait_until

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, dict[bytes, bytes | None]]]:
    broker = BrokerProcess(tmp_path_factory.mktemp("compacted") / "data")
    broker.config |= compacted_topic.BROKER
    with broker:
        compacted_topic.create(broker.bootstrap)
        latest = compacted_topic.fill(broker.bootstrap)
        compacted_topic.await_compacted(broker.data)
        yield broker, latest


def test_librdkafka_reads_a_compacted_log_from_any_offset(compacted):
    broker, latest = compacted
    left = compacted_topic.read(broker.bootstrap)
    assert {key: value for _, key, value in left} == latest
    offsets = [offset for offset, _, _ in left]
    assert len(offsets) < 400 < offsets[-1]
    for start in (1, offsets[0] - 1, offsets[0] + 1, offsets[-1] - 1, offsets[-1]):
        assert compacted_topic.read(broker.bootstrap, start) == [row for row in left if row[0] >= start]


def test_aiokafka_reads_a_compacted_log(compacted):
    broker, latest = compacted

    async def story() -> dict[bytes, bytes | None]:
        reader = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, check_crcs=True)
        await reader.start()
        partition = AioPartition(TOPIC, 0)
        reader.assign([partition])
        await reader.seek_to_beginning(partition)
        found = {}
        end = (await reader.end_offsets([partition]))[partition]
        while await reader.position(partition) < end:
            for messages in (await reader.getmany(timeout_ms=1000)).values():
                found |= {message.key: message.value for message in messages}
        await reader.stop()
        return found

    assert asyncio.run(asyncio.wait_for(story(), 60)) == latest


def test_kafka_python_reads_a_compacted_log(compacted):
    broker, latest = compacted
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap, check_crcs=True)
    partition = PythonPartition(TOPIC, 0)
    reader.assign([partition])
    reader.seek_to_beginning(partition)
    found: dict[bytes, bytes | None] = {}
    end = reader.end_offsets([partition])[partition]
    while reader.position(partition) < end:
        for messages in reader.poll(1000).values():
            found |= {message.key: message.value for message in messages}
    reader.close()
    assert found == latest


def test_consumer_gets_the_last_value_of_every_key_while_the_log_is_compacted(compacted):
    """It has read the beginning when all keys get new values and the log is compacted again."""
    broker, _ = compacted
    little = {"max.partition.fetch.bytes": 2000, "queued.min.messages": 1}
    reader = Consumer({**small_world.client(broker.bootstrap, "slow"), **little})
    reader.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found = {}
    for _ in range(3):
        message = reader.poll(20)
        found[message.key()] = message.value()
    latest = compacted_topic.fill(broker.bootstrap)
    compacted_topic.await_compacted(broker.data)
    _, end = reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
    while found.get(b"last") != b"end" or message.offset() < end - 1:
        message = reader.poll(20)
        found[message.key()] = message.value()
    reader.close()
    assert found == latest


def test_compacted_log_is_the_same_after_a_kill(compacted):
    broker, _ = compacted
    left = compacted_topic.read(broker.bootstrap)
    broker.kill()
    broker.start()
    assert {key: value for _, key, value in compacted_topic.read(broker.bootstrap)} == {
        key: value for _, key, value in left
    }


def test_compaction_keeps_the_offsets_topic_small(tmp_path):
    """`bench/commits.py` does the same with a million commits."""
    broker = BrokerProcess(tmp_path / "data")
    broker.config |= compacted_topic.BROKER
    broker.config |= {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": str(1 << 20)}
    broker.config |= {"log.segment.delete.delay.ms": "0"}
    with broker:
        create_topic_of_commits(broker)
        commit_all(broker.port, 8_000)
        wanted = committed(broker.port)
        assert sorted(wanted) == list(range(8_000 - KEYS, 8_000))
        wait_until(lambda: stored(broker.data)["mb"] <= 1.1, "the compaction of the offsets topic")
        assert stored(broker.data)["segments"] <= 2
        broker.kill()
        broker.start()
        assert wait_until(lambda: committed(broker.port), "the committed offsets") == wanted


def create_topic_of_commits(broker):
    with Client(broker.port) as client:
        client.create_topic("events", [[1]] * KEYS)
        client.request(FIND_COORDINATOR, 0, string(GROUP))
    wait_until(lambda: committed(broker.port), "a committed offset")
