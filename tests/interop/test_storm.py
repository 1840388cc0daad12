"""A Storm topology reads a topic and writes another: Storm's own spout and bolt, in a local cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.foreign_programs import compiled, java

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from kafka_jars import storm

RECORDS = 2000
PARTITIONS = 4
WITHIN_S = 200


@pytest.fixture
def cluster() -> Iterator[str]:
    with Embedded(brokers=3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for made in admin.create_topics([NewTopic("from", PARTITIONS), NewTopic("to", PARTITIONS)]).values():
            made.result(30)
        yield cluster.bootstrap_servers


def test_storm_topology_writes_every_record_once(cluster: str, tmp_path: Path) -> None:
    """Storm is at-least-once. Nothing fails in this test, so every record is written exactly once."""
    places = _produce(cluster)
    jars = storm()
    command = java("CopyTopology", cluster, "from", "to", classpath=[compiled("storm", jars), *jars])
    with (
        (tmp_path / "storm.log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=tmp_path) as topology,
    ):
        try:
            found = _consume(cluster, topology, tmp_path / "storm.log")
            _await_commits(cluster)
        finally:
            topology.kill()
    expected = {f"{value} @ {place}": key for (key, value), place in places.items()}
    assert len(found) == len(expected) == RECORDS
    assert dict(found) == expected


def _produce(bootstrap: str) -> dict[tuple[str, str], str]:
    """Key and value of each record -> its partition and offset."""
    places: dict[tuple[str, str], str] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(
            "from",
            key=f"key {number % 97}",
            value=f"value {number}",
            on_delivery=lambda error, message: places.update(
                {(message.key().decode(), message.value().decode()): f"{message.partition()}:{message.offset()}"}
            ),
        )
    assert producer.flush(60) == 0
    assert len(places) == RECORDS
    return places


def _consume(bootstrap: str, topology: subprocess.Popen[bytes], log: Path) -> list[tuple[str, str]]:
    """(value, key) of the output records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "auto.offset.reset": "earliest"})
    consumer.subscribe(["to"])
    found: list[tuple[str, str]] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < RECORDS:
        assert topology.poll() is None, log.read_text()[-5000:]
        assert time.monotonic() < deadline, f"{len(found)} of {RECORDS}\n{log.read_text()[-5000:]}"
        for message in consumer.consume(500, 1):
            assert message.error() is None
            found.append((message.value().decode(), message.key().decode()))
    consumer.close()
    return found


def _await_commits(bootstrap: str) -> None:
    """The spout commits processed records shortly afterwards."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition("from", index) for index in range(PARTITIONS)]
    committed = 0
    while committed < RECORDS:
        group = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("storm", wanted)])["storm"].result(30)
        committed = sum(max(0, partition.offset) for partition in group.topic_partitions)
