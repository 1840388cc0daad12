"""Groups of aiokafka and kafka-python, and one group with members of three libraries."""

from __future__ import annotations

import asyncio
import threading
import time

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded

pytestmark = pytest.mark.clients

WITHIN_S = 20
PARTITIONS = 6


@pytest.fixture(scope="module")
def broker():
    with Embedded(config={"group.min.session.timeout.ms": "1000"}) as running:
        yield running


def filled(broker, topic: str, count: int = 30) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result(WITHIN_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    return topic


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


def test_kafka_python_rebalances_commits_and_resumes(broker):
    topic = filled(broker, "kafka-python")
    ann = kafka_python_consumer(broker, topic, "kp")
    read: list[int] = []
    deadline = time.monotonic() + WITHIN_S
    while len(read) < 30 and time.monotonic() < deadline:
        read += [int(record.value) for records in ann.poll(200).values() for record in records]
    assert sorted(read) == list(range(30))
    ann.commit()
    ben = kafka_python_consumer(broker, topic, "kp")
    while time.monotonic() < deadline and not (ann.assignment() and ben.assignment()):
        assert ann.poll(50) == {}
        assert ben.poll(50) == {}
    assert not ann.assignment() & ben.assignment()
    assert len(ann.assignment() | ben.assignment()) == PARTITIONS
    ann.close()
    while time.monotonic() < deadline and len(ben.assignment()) < PARTITIONS:
        ben.poll(50)
    assert len(ben.assignment()) == PARTITIONS
    ben.close()


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

    def kafka_python() -> None:
        consumer = kafka_python_consumer(broker, topic, "mixed")
        while not stop.is_set():
            consumer.poll(50)
            assigned["kafka-python"] = {p.partition for p in consumer.assignment()}
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

    threads = [threading.Thread(target=client, daemon=True) for client in (librdkafka, kafka_python, aiokafka)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + WITHIN_S
    tick = threading.Event()
    try:
        while sorted(p for owned in dict(assigned).values() for p in owned) != list(range(PARTITIONS)) or any(
            not owned for owned in dict(assigned).values()
        ):
            assert time.monotonic() < deadline, assigned
            tick.wait(0.05)
        assert len(assigned) == 3
    finally:
        stop.set()
        for thread in threads:
            thread.join(WITHIN_S)
