"""Transactions of Producer and AsyncProducer against a real broker."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    ProducerFenced,
    TransactionAborted,
)
from odradek.testing import Embedded


def committed(bootstrap: str, topic: str) -> list[bytes]:
    with Consumer(topic, bootstrap=bootstrap, stop_at_end=True) as consumer:
        return sorted(record.value for record in consumer)


def test_the_records_of_a_block_are_visible_together(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=topic) as producer:
        for turn in range(3):
            with producer.transaction() as tx:
                for partition in range(3):
                    tx.send(topic, b"%d-%d" % (turn, partition), partition=partition)
                assert tx.send(topic, b"%d" % turn).result().topic == topic
    assert committed(bootstrap, topic) == sorted(
        value for turn in range(3) for value in (b"%d" % turn, *(b"%d-%d" % (turn, index) for index in range(3)))
    )


def test_a_block_that_raises_leaves_nothing(bootstrap: str, topic: str) -> None:
    def failing(producer: Producer) -> None:
        with producer.transaction() as tx:
            tx.send(topic, b"never").result()
            tx.send(topic, b"neither")
            raise ZeroDivisionError

    with Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(ZeroDivisionError):
            failing(producer)
        with producer.transaction() as tx:
            tx.send(topic, b"after it")
    assert committed(bootstrap, topic) == [b"after it"]


def test_consumed_offsets_are_part_of_the_transaction(bootstrap: str, topic: str) -> None:
    copy = f"{topic}-copy"
    Admin(bootstrap).create_topic(copy, 1)

    def failing(producer: Producer, consumer: Consumer) -> None:
        with producer.transaction() as tx:
            for record in consumer.take(10, timeout=60):
                tx.send(copy, record.value)
            tx.send_offsets(consumer)
            raise ZeroDivisionError

    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    with (
        Producer(bootstrap, transactional_id=topic) as producer,
        Consumer(topic, bootstrap=bootstrap, group=topic, auto_commit=False) as consumer,
    ):
        with pytest.raises(ZeroDivisionError):
            failing(producer, consumer)
        consumer.rewind()
        copied = 0
        while copied < 10:
            with producer.transaction() as tx:
                records = consumer.take(5, timeout=60)
                for record in records:
                    tx.send(copy, record.value)
                tx.send_offsets(consumer)
            copied += len(records)
    assert committed(bootstrap, copy) == sorted(b"%d" % number for number in range(10))
    with Consumer(topic, bootstrap=bootstrap, group=topic, stop_at_end=True) as consumer:
        assert list(consumer) == []


def test_a_consumer_that_commits_by_itself_is_refused(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap, transactional_id=topic) as producer,
        Consumer(topic, bootstrap=bootstrap, group=topic) as consumer,
        pytest.raises(RuntimeError, match="auto_commit=False"),
        producer.transaction() as tx,
    ):
        tx.send_offsets(consumer)


def test_a_new_producer_fences_the_old_one(bootstrap: str, topic: str) -> None:
    def both(old: Producer, new: Producer) -> None:
        with old.transaction() as tx:
            tx.send(topic, b"old").result()
            with new.transaction() as later:
                later.send(topic, b"new")

    with (
        Producer(bootstrap, transactional_id=topic) as old,
        Producer(bootstrap, transactional_id=topic) as new,
        pytest.raises(ProducerFenced),
    ):
        both(old, new)
    assert committed(bootstrap, topic) == [b"new"]


def test_a_transaction_that_takes_too_long_is_aborted(topic: str) -> None:
    with Embedded(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}) as broker:
        bootstrap = broker.bootstrap_servers
        Admin(bootstrap).create_topic(topic, 1)

        def slow(producer: Producer) -> None:
            with producer.transaction() as tx:
                tx.send(topic, b"slow").result()
                with Producer(bootstrap) as other:
                    other.send(topic, b"other").result()
                with Consumer(topic, bootstrap=bootstrap) as consumer:
                    # Readers of committed records get here when the coordinator has aborted the transaction.
                    assert consumer.poll(30).value == b"other"

        with (
            Producer(bootstrap, transactional_id=topic, transaction_timeout_ms=1000) as producer,
            pytest.raises((TransactionAborted, ProducerFenced)),
        ):
            slow(producer)
        assert committed(bootstrap, topic) == [b"other"]


def test_a_fenced_producer_is_closed_without_another_error(bootstrap: str, topic: str) -> None:
    """The polling thread and the closing thread compete for librdkafka's report of the fatal error."""

    def fenced_meanwhile(producer: Producer, transactional_id: str) -> None:
        with producer.transaction() as tx:
            tx.send(topic, b"x").result()
            with Producer(bootstrap, transactional_id=transactional_id) as newer, newer.transaction():
                pass

    for turn in range(20):
        fenced = Producer(bootstrap, transactional_id=f"{topic}-{turn}")
        with pytest.raises(ProducerFenced):
            fenced_meanwhile(fenced, f"{topic}-{turn}")
        fenced.close()


def test_a_producer_without_an_id_has_no_transactions(bootstrap: str) -> None:
    with Producer(bootstrap) as producer, pytest.raises(RuntimeError, match="transactional_id"), producer.transaction():
        pass


def test_transactions_do_not_nest(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap, transactional_id=topic) as producer,
        producer.transaction(),
        pytest.raises(RuntimeError, match="open transaction"),
        producer.transaction(),
    ):
        pass


def test_async_transactions(bootstrap: str, topic: str) -> None:
    copy = f"{topic}-copy"
    Admin(bootstrap).create_topic(copy, 1)

    async def failing(producer: AsyncProducer, consumer: AsyncConsumer) -> None:
        async with producer.transaction() as tx:
            for record in await consumer.take(3, timeout=60):
                await tx.send(copy, record.value)
            await tx.send_offsets(consumer)
            raise ZeroDivisionError

    async def story() -> None:
        async with AsyncProducer(bootstrap) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number)
        async with (
            AsyncProducer(bootstrap, transactional_id=topic) as producer,
            AsyncConsumer(topic, bootstrap=bootstrap, group=topic, auto_commit=False) as consumer,
        ):
            with pytest.raises(ZeroDivisionError):
                await failing(producer, consumer)
            await consumer.rewind()
            copied = 0
            while copied < 10:
                async with producer.transaction() as tx:
                    records = await consumer.take(5, timeout=60)
                    for record in records:
                        await tx.send(copy, record.value)
                    await tx.send_offsets(consumer, *records)
                copied += len(records)

    asyncio.run(story())
    assert committed(bootstrap, copy) == sorted(b"%d" % number for number in range(10))
