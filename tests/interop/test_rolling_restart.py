"""A rolling restart of three brokers under load: Java, kafkajs and librdkafka with default settings see no error.

With default retries the program gets no error, and every acknowledged record is stored, in the order of sending.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.foreign_programs import compiled, java, node_folder
from support.kafka_process import jars, tools
from support.waiting import wait_until

PARTITIONS = 3
# kafkajs and librdkafka are not idempotent by default: a record that is retried after a lost response is stored twice.
TOPICS = ("java", "kafkajs", "librdkafka", "librdkafka-idempotent")
SENT_BEFORE = 300


class Told(NamedTuple):
    acknowledged: int
    # Partition, offset, number.
    received: list[tuple[int, int, int]]
    errors: list[str]


class Program:
    """A client in a separate process."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"running\n"

    def end(self) -> Told:
        said, complaints = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, complaints.decode()
        return Told(**json.loads(said))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class Librdkafka:
    """Like `Rolling.java`, in threads of this process."""

    def __init__(self, bootstrap: str, topic: str, **config: Any) -> None:
        self._client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer_config = config
        self._topic = topic
        self._told = Told(0, [], [])
        self._acknowledged = 0
        self._stopping = threading.Event()
        self._sent = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def end(self) -> Told:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self._told._replace(acknowledged=self._acknowledged)

    def kill(self) -> None:
        self.end()

    def _produce(self) -> None:
        producer = Producer(self._client | self._producer_config)
        number = 0
        while not self._stopping.wait(0.002):
            producer.produce(self._topic, str(number), f"key {number % 20}", on_delivery=self._delivered)
            producer.poll(0)
            number += 1
        if producer.flush(120):
            self._told.errors.append("producer: not all was delivered")
        self._sent.set()

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._told.errors.append(f"producer: {error}")

    def _consume(self) -> None:
        consumer = Consumer(self._client | {"group.id": f"{self._topic}-readers", "auto.offset.reset": "earliest"})
        consumer.subscribe([self._topic])
        deadline = float("inf")
        while time.monotonic() < deadline:
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    self._told.received.append((message.partition(), message.offset(), int(message.value())))
                else:
                    self._told.errors.append(f"consumer: {message.error()}")
            if self._sent.is_set():
                if len({number for _, _, number in self._told.received}) >= self._acknowledged:
                    break
                deadline = min(deadline, time.monotonic() + 60)
        consumer.close()


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Told]]]:
    """The address of the cluster, and the results of each client after all brokers were restarted."""
    with Embedded(
        brokers=3, config={"min.insync.replicas": 2}, log=tmp_path_factory.mktemp("rolled") / "log"
    ) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in TOPICS]).values():
            made.result(30)
        clients = _clients(bootstrap)
        try:
            _await_records(bootstrap)
            for node in cluster.nodes.values():
                node.restart()
                _await_whole(admin)
            told = {topic: client.end() for topic, client in clients.items()}
        finally:
            for client in clients.values():
                client.kill()
        yield bootstrap, told


def _clients(bootstrap: str) -> dict[str, Program | Librdkafka]:
    classpath = [compiled("java", [jars(), tools()]), jars()]
    return {
        "java": Program(java("Rolling", bootstrap, "java", classpath=classpath)),
        "kafkajs": Program(["node", str(node_folder() / "rolling.js"), bootstrap, "kafkajs"]),
        "librdkafka": Librdkafka(bootstrap, "librdkafka"),
        "librdkafka-idempotent": Librdkafka(bootstrap, "librdkafka-idempotent", **{"enable.idempotence": True}),
    }


def _await_records(bootstrap: str) -> None:
    """Waits until every client has sent records."""
    watcher = Consumer({"bootstrap.servers": bootstrap, "group.id": "watcher", "log_level": 0})
    places = {topic: [TopicPartition(topic, index) for index in range(PARTITIONS)] for topic in TOPICS}
    wait_until(
        lambda: all(sum(_end_offset(watcher, each) for each in places[topic]) >= SENT_BEFORE for topic in TOPICS),
        "records of every client",
        within_s=300,
        every_s=0.2,
    )
    watcher.close()


def _end_offset(client: Consumer, place: TopicPartition) -> int:
    """Retries, because this call of librdkafka asks the leader that it knows only once."""
    while True:
        try:
            return client.get_watermark_offsets(place)[1]
        except KafkaException as refused:
            if refused.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TIMED_OUT):
                raise


def _await_whole(admin: AdminClient) -> None:
    """Waits until every replica is in sync, as an operator would before the next restart."""

    def is_whole() -> bool:
        topics = admin.list_topics(timeout=30).topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(len(partition.isrs) == len(partition.replicas) for partition in partitions)

    wait_until(is_whole, "every replica is in sync", within_s=300, every_s=0.1)


@pytest.mark.parametrize("topic", TOPICS)
def test_client_reports_no_error_during_a_rolling_restart(rolled: tuple[str, dict[str, Told]], topic: str) -> None:
    assert rolled[1][topic].errors == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_acknowledged_record_is_stored_in_order(rolled: tuple[str, dict[str, Told]], topic: str) -> None:
    bootstrap, told = rolled
    kept = _read(bootstrap, topic)
    numbers = [number for _, _, number in kept]
    assert sorted(dict.fromkeys(numbers)) == list(range(told[topic].acknowledged))
    if topic in ("java", "librdkafka-idempotent"):
        assert len(numbers) == told[topic].acknowledged
    for partition in range(PARTITIONS):
        there = [number for place, _, number in kept if place == partition]
        firsts = list(dict.fromkeys(there))
        assert firsts == sorted(firsts)


@pytest.mark.parametrize("topic", TOPICS)
def test_consumer_receives_every_record_in_order(rolled: tuple[str, dict[str, Told]], topic: str) -> None:
    """Delivery is at-least-once: a consumer may read records again, but in order."""
    bootstrap, told = rolled
    kept = {(partition, offset): number for partition, offset, number in _read(bootstrap, topic)}
    received = {(partition, offset): number for partition, offset, number in told[topic].received}
    assert received == kept
    for partition in range(PARTITIONS):
        firsts = list(dict.fromkeys(offset for place, offset, _ in told[topic].received if place == partition))
        assert firsts == sorted(firsts)


def _read(bootstrap: str, topic: str) -> list[tuple[int, int, int]]:
    """All records of the topic, one partition after the other."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    kept: list[tuple[int, int, int]] = []
    for index in range(PARTITIONS):
        end = _end_offset(reader, TopicPartition(topic, index))
        reader.assign([TopicPartition(topic, index, 0)])
        while not kept or kept[-1][0] != index or kept[-1][1] < end - 1:
            kept += [(each.partition(), each.offset(), int(each.value())) for each in reader.consume(1000, 1)]
    reader.close()
    return kept
