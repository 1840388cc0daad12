"""aiokafka against a broker process. This client begins with ApiVersions v0."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from support.waiting import until
from support.wiretap import Wiretap

pytestmark = pytest.mark.clients


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


async def create_topic(tap: Wiretap, name: str, partitions: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=tap.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, partitions, 1)])
    await admin.close()


def consumer(tap: Wiretap, *topics: str, group: str | None) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=tap.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        metadata_max_age_ms=1000,
    )


async def settled(condition: Callable[[], bool]) -> None:
    await until(condition, "the group is stable")


async def produce(tap: Wiretap, topic: str, values: list[bytes], **settings: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=tap.bootstrap, **settings) as producer:
        for pending in [await producer.send(topic, value) for value in values]:
            await pending


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(tap: Wiretap, codec: str | None) -> None:
    async def story() -> None:
        topic = f"aio-{codec}"
        await create_topic(tap, topic)
        values = [b"%d" % number * 30 for number in range(500)]
        await produce(tap, topic, values, compression_type=codec, enable_idempotence=True)
        async with consumer(tap, topic, group=None) as reader:
            assert [(await reader.getone()).value for _ in values] == values

    run(story())


def test_group_with_a_rebalance_commit_and_resume(tap: Wiretap) -> None:
    async def story() -> None:
        await create_topic(tap, "aio-shared", 4)
        first = consumer(tap, "aio-shared", group="aio-group")
        await first.start()
        assert len(first.assignment()) == 4
        second = consumer(tap, "aio-shared", group="aio-group")
        await second.start()
        await settled(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        await second.stop()
        await settled(lambda: len(first.assignment()) == 4)
        await produce(tap, "aio-shared", [b"%d" % number for number in range(40)])
        seen = [await first.getone() for _ in range(30)]
        await first.commit()
        await first.stop()
        async with consumer(tap, "aio-shared", group="aio-group") as successor:
            rest = [await successor.getone() for _ in range(10)]
        assert {int(record.value) for record in seen + rest} == set(range(40))

    run(story())


def test_seek_by_offset_and_time(tap: Wiretap) -> None:
    async def story() -> None:
        await create_topic(tap, "aio-seek")
        start = int(time.time() * 1000) - 10_000
        async with AIOKafkaProducer(bootstrap_servers=tap.bootstrap) as producer:
            for number in range(50):
                await producer.send("aio-seek", b"%d" % number, timestamp_ms=start + number * 10)
        partition = TopicPartition("aio-seek", 0)
        async with consumer(tap, group=None) as reader:
            reader.assign([partition])
            reader.seek(partition, 45)
            assert (await reader.getone()).offset == 45
            found = await reader.offsets_for_times({partition: start + 205})
            assert found[partition].offset == 21
            assert await reader.end_offsets([partition]) == {partition: 50}

    run(story())


def test_topics_are_created_and_deleted(tap: Wiretap) -> None:
    async def story() -> None:
        await create_topic(tap, "aio-life", 3)
        admin = AIOKafkaAdminClient(bootstrap_servers=tap.bootstrap)
        await admin.start()
        [described] = await admin.describe_topics(["aio-life"])
        assert len(described["partitions"]) == 3
        await admin.delete_topics(["aio-life"])
        assert "aio-life" not in await admin.list_topics()
        await admin.close()

    run(story())


def test_transactions_that_are_committed_and_aborted(tap: Wiretap) -> None:
    async def story() -> None:
        await create_topic(tap, "in-transactions")
        async with AIOKafkaProducer(bootstrap_servers=tap.bootstrap, transactional_id="aiokafka") as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("in-transactions", b"aborted")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait("in-transactions", b"committed")
        reader = AIOKafkaConsumer(
            "in-transactions",
            bootstrap_servers=tap.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with reader:
            assert (await reader.getone()).value == b"committed"

    run(story())
