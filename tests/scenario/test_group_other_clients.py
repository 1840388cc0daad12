"""Groups of aiokafka and kafka-python, and one group with members of three libraries."""

from __future__ import annotations

import asyncio
import threading

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.waiting import wait_until

pytestmark = pytest.mark.clients

WITHIN_S = 60
PARTITIONS = 6


@pytest.fixture(scope="module")
def broker():
    with Embedded(config={"group.min.session.timeout.ms": "1000"}) as running:
        yield running


def filled(broker, topic: str, count: int = 30) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result(WITHIN_S)
    produce(broker, topic, 0, count)
    return topic


def produce(broker, topic: str, start: int, stop: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(start, stop):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0


def aiokafka_consumer(broker, topic: str, group: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=[RangePartitionAssignor],
    )


def kafka_python_consumer(broker, topic: str, group: str) -> kafka.KafkaConsumer:
    return kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
    )


def test_aiokafka_rebalances_commits_and_resumes(broker):
    topic = filled(broker, "aiokafka")

    async def read(consumer, count: int) -> list[int]:
        return [int((await consumer.getone()).value) for _ in range(count)]

    async def story():
        async with asyncio.timeout(WITHIN_S):
            ann = aiokafka_consumer(broker, topic, "aio")
            await ann.start()
            assert sorted(await read(ann, 30)) == list(range(30))
            await ann.commit()
            ben = aiokafka_consumer(broker, topic, "aio")
            await ben.start()
            while not ann.assignment() or not ben.assignment() or len(ann.assignment() | ben.assignment()) < PARTITIONS:
                await asyncio.wait([asyncio.create_task(ann.getmany(timeout_ms=50))])
            assert not ann.assignment() & ben.assignment()
            await ann.stop()
            while len(ben.assignment()) < PARTITIONS:
                assert await ben.getmany(timeout_ms=50) == {}, "everything was committed"
            await ben.stop()

    asyncio.run(story())


class KafkaPythonPerson:
    """Polls on its own thread and for long: kafka-python 3.0 loses an assignment that arrives between two polls."""

    def __init__(self, broker, topic: str, group: str) -> None:
        self.consumer = kafka_python_consumer(broker, topic, group)
        self.read: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for records in self.consumer.poll(5000).values():
                self.read += [int(record.value) for record in records]
                self.consumer.commit()
        self.consumer.close()

    def owns(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def leave(self) -> None:
        """Takes effect once its poll returns, which needs a record."""
        self._stop.set()

    def join(self) -> None:
        self._thread.join(WITHIN_S)


def test_kafka_python_rebalances_commits_and_resumes(broker):
    topic = filled(broker, "kafka-python")
    ann = KafkaPythonPerson(broker, topic, "kp")
    wait_until(lambda: sorted(ann.read) == list(range(30)))
    ben = KafkaPythonPerson(broker, topic, "kp")
    wait_until(lambda: bool(ben.owns()) and sorted([*ann.owns(), *ben.owns()]) == list(range(PARTITIONS)))
    ann.leave()
    produce(broker, topic, 30, 60)
    ann.join()
    wait_until(lambda: sorted(ann.read + ben.read) == list(range(60)))
    wait_until(lambda: len(ben.owns()) == PARTITIONS)
    ben.leave()
    produce(broker, topic, 60, 66)
    ben.join()


def test_members_of_three_libraries_share_one_group(broker):
    topic = filled(broker, "mixed", 0)
    assigned: dict[str, set[int]] = {}
    stop = threading.Event()

    def librdkafka() -> None:
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "mixed", "heartbeat.interval.ms": 200,
             "partition.assignment.strategy": "range"}
        )  # fmt: skip
        consumer.subscribe([topic])
        while not stop.is_set():
            consumer.poll(0.05)
            assigned["librdkafka"] = {p.partition for p in consumer.assignment()}
        consumer.close()

    def aiokafka() -> None:
        async def run() -> None:
            consumer = aiokafka_consumer(broker, topic, "mixed")
            await consumer.start()
            while not stop.is_set():
                await consumer.getmany(timeout_ms=50)
                assigned["aiokafka"] = {p.partition for p in consumer.assignment()}
            await consumer.stop()

        asyncio.run(run())

    threads = [threading.Thread(target=client, daemon=True) for client in (librdkafka, aiokafka)]
    for thread in threads:
        thread.start()
    third = KafkaPythonPerson(broker, topic, "mixed")
    try:
        wait_until(
            lambda: (
                all(owned := [assigned.get("librdkafka"), assigned.get("aiokafka"), third.owns()])
                and sorted(partition for partitions in owned for partition in partitions) == list(range(PARTITIONS))
            )
        )
    finally:
        stop.set()
        third.leave()
        produce(broker, topic, 0, PARTITIONS)
        third.join()
        for thread in threads:
            thread.join(WITHIN_S)
