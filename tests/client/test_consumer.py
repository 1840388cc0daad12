"""Consumer and AsyncConsumer against a real broker."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from client.threads import run_and_collect, threads_end
from odradek.client import (
    JSON,
    Admin,
    AsyncConsumer,
    AsyncProducer,
    BadRecord,
    Consumer,
    Producer,
    Record,
    UnknownTopic,
    json_of,
)
from odradek.client.bad_records import OnBad


@dataclass
class Order:
    id: int


@pytest.fixture
def orders(bootstrap: str, topic: str) -> str:
    """Twelve orders, four in each partition."""
    with Producer(bootstrap, value=json_of(Order)) as producer:
        for number in range(12):
            producer.send(topic, Order(number), partition=number % 3)
    return topic


def test_a_consumer_without_a_group_reads_everything_and_commits_nothing(bootstrap: str, orders: str) -> None:
    for _ in range(2):
        with Consumer(orders, bootstrap=bootstrap, value=Order, stop_at_end=True) as consumer:
            assert sorted(record.value.id for record in consumer) == list(range(12))
            assert consumer.lag() == {(orders, partition): 0 for partition in range(3)}
            assert consumer.position() == {(orders, partition): 4 for partition in range(3)}
            with pytest.raises(RuntimeError, match="without a group commits nothing"):
                consumer.commit()
    assert "odradek-reader" not in Admin(bootstrap).groups()


def test_a_group_continues_after_the_last_record_that_was_done(bootstrap: str, orders: str) -> None:
    def read(count: int, fail: bool = False) -> list[int]:
        seen = []
        with Consumer(orders, bootstrap=bootstrap, group=orders, value=Order, stop_at_end=True) as consumer:
            for record in consumer:
                if len(seen) == count:
                    if fail:
                        raise ZeroDivisionError
                    break
                seen.append(record.value.id)
                if len(seen) == count and not fail:
                    break
        return seen

    first = read(5)
    with pytest.raises(ZeroDivisionError):
        read(0, fail=True)
    assert sorted(first + read(12)) == list(range(12)), "what failed comes again, nothing is skipped, nothing doubled"


def test_commits_by_hand(bootstrap: str, orders: str) -> None:
    options = {"bootstrap": bootstrap, "group": orders, "auto_commit": False, "stop_at_end": True}
    with Consumer(orders, **options) as consumer:
        third = [record for record in consumer if record.partition == 0][2]
        consumer.commit(third)
    with Consumer(orders, **options) as consumer:
        assert sorted((record.partition, record.offset) for record in consumer if record.partition == 0) == [(0, 3)]


def test_start_positions(bootstrap: str, topic: str) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with Producer(bootstrap) as producer:
        for hours in range(4):
            producer.send(topic, str(hours), partition=0, timestamp=noon + timedelta(hours=hours)).result(60)

    def read(**options: object) -> list[bytes]:
        with Consumer(topic, bootstrap=bootstrap, stop_at_end=True, **options) as consumer:
            return [record.value for record in consumer]

    assert read(start="latest") == []
    assert read(start=noon + timedelta(hours=2)) == [b"2", b"3"]
    assert read(start=timedelta(days=36500)) == [b"0", b"1", b"2", b"3"]
    assert read(start=noon + timedelta(hours=3), group=topic) == [b"3"]
    assert read(start=noon, group=topic) == [], "a group goes on where it was"
    with pytest.raises(ValueError, match="start='middle': use 'earliest'"):
        read(start="middle")


def test_seek_reads_records_again(bootstrap: str, orders: str) -> None:
    with Consumer(orders, bootstrap=bootstrap, stop_at_end=True) as consumer:
        assert len(list(consumer)) == 12
        consumer.seek(orders, 1, 2)
        assert [(record.partition, record.offset) for record in consumer] == [(1, 2), (1, 3)]
        assert sorted(consumer.assignment()) == [(orders, partition) for partition in range(3)]


def test_a_bad_record_is_reported_and_can_be_skipped(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        for value in ('{"id": 1}', "{", '{"id": 2}'):
            producer.send(topic, value, partition=0).result(60)
    seen: list[int] = []
    with Consumer(topic, bootstrap=bootstrap, value=Order, stop_at_end=True) as consumer:
        seen.append(consumer.poll(10).value.id)
        with pytest.raises(BadRecord, match=rf"{topic}-0 at offset 1: its value is not JSON of Order: ") as bad:
            consumer.poll(10)
        assert bad.value.raw_value == b"{"
        seen += [record.value.id for record in consumer]
    assert seen == [1, 2]


@pytest.fixture
def half_broken(bootstrap: str, topic: str) -> str:
    """In partition 0: an order, two bad records, and another order. In partition 1: one bad record."""
    with Producer(bootstrap) as producer:
        for value in ('{"id": 1}', "{", "[", '{"id": 2}'):
            producer.send(topic, value, key="k", partition=0, headers={"source": "web"}).result(60)
        producer.send(topic, "?", partition=1).result(60)
    return topic


def ids_with_next(iterator: Iterator[Record[bytes, Order]]) -> tuple[list[int], int]:
    """Calls `next` on one iterator, like a program that catches BadRecord and continues."""
    seen, bad = [], 0
    while True:
        try:
            seen.append(next(iterator).value.id)
        except BadRecord:
            bad += 1
        except StopIteration:
            return seen, bad


def test_an_iterator_continues_after_bad_records(bootstrap: str, half_broken: str) -> None:
    with Consumer(half_broken, bootstrap=bootstrap, value=Order, stop_at_end=True) as consumer:
        assert ids_with_next(iter(consumer)) == ([1, 2], 3)
        assert consumer.skipped == 0, "the program passed them over, not on_bad"


def test_an_async_iterator_continues_after_bad_records(bootstrap: str, half_broken: str) -> None:
    async def main() -> tuple[list[int], int]:
        seen, bad = [], 0
        async with AsyncConsumer(half_broken, bootstrap=bootstrap, value=Order, stop_at_end=True) as consumer:
            iterator = aiter(consumer)
            while True:
                try:
                    seen.append((await anext(iterator)).value.id)
                except BadRecord:
                    bad += 1
                except StopAsyncIteration:
                    return seen, bad

    assert asyncio.run(main()) == ([1, 2], 3)


def test_bad_records_are_skipped_counted_and_committed(
    bootstrap: str, half_broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"bootstrap": bootstrap, "group": half_broken, "value": Order, "stop_at_end": True, "on_bad": "skip"}
    with Consumer(half_broken, **options) as consumer:
        assert [record.value.id for record in consumer] == [1, 2]
        assert consumer.skipped == 3
    assert "its value is not JSON of Order" in caplog.text
    committed = Admin(bootstrap).committed(half_broken)
    assert (committed[half_broken, 0], committed[half_broken, 1]) == (4, 1)


def test_bad_records_go_to_a_function(bootstrap: str, half_broken: str) -> None:
    bad: list[BadRecord] = []
    with Consumer(half_broken, bootstrap=bootstrap, value=Order, stop_at_end=True, on_bad=bad.append) as consumer:
        assert [record.value.id for record in consumer] == [1, 2]
        assert consumer.skipped == 3
    assert sorted((each.partition, each.offset, each.raw_value) for each in bad) == [
        (0, 1, b"{"), (0, 2, b"["), (1, 0, b"?"),
    ]  # fmt: skip
    assert [each.headers for each in bad if each.offset == 1] == [[("source", b"web")]]


def test_a_failing_on_bad_leaves_the_record_uncommitted_for_the_group(bootstrap: str, half_broken: str) -> None:
    def refuse(_: BadRecord) -> None:
        raise ZeroDivisionError

    options = {"bootstrap": bootstrap, "group": half_broken, "value": Order, "stop_at_end": True}
    with pytest.raises(ZeroDivisionError), Consumer(half_broken, on_bad=refuse, **options) as consumer:
        list(consumer)
    bad: list[BadRecord] = []
    with Consumer(half_broken, on_bad=bad.append, **options) as consumer:
        list(consumer)
    assert len(bad) == 3, "each of them comes again"


def test_bad_records_become_dead_letters(bootstrap: str, half_broken: str) -> None:
    dead_letters = f"{half_broken}-dead"

    async def main() -> tuple[list[int], int]:
        async with AsyncProducer(bootstrap) as producer:

            async def bury(bad: BadRecord) -> None:
                stored = await producer.send(dead_letters, bad.raw_value, bad.raw_key, headers=bad.headers)
                await stored

            options = {"bootstrap": bootstrap, "value": Order, "stop_at_end": True, "on_bad": bury}
            async with AsyncConsumer(half_broken, **options) as consumer:
                return [record.value.id async for record in consumer], consumer.skipped

    assert asyncio.run(main()) == ([1, 2], 3)
    with Consumer(dead_letters, bootstrap=bootstrap, stop_at_end=True) as consumer:
        assert sorted(record.value for record in consumer) == [b"?", b"[", b"{"]


def committed_in_first_partition(bootstrap: str, topic: str) -> int | None:
    """The offset that the group, named as the topic, committed."""
    return Admin(bootstrap).committed(topic).get((topic, 0))


@pytest.fixture
def broken(bootstrap: str, topic: str) -> str:
    """In partition 0: a bad record, and an order."""
    with Producer(bootstrap) as producer:
        for value in ("{", '{"id": 2}'):
            producer.send(topic, value, partition=0).result(60)
    return topic


def test_on_bad_gets_a_record_again_when_it_failed(bootstrap: str, broken: str) -> None:
    attempts: list[int] = []

    def fail_once(bad: BadRecord) -> None:
        attempts.append(bad.offset)
        if len(attempts) == 1:
            raise ZeroDivisionError

    options = {"bootstrap": bootstrap, "group": broken, "value": Order, "stop_at_end": True}
    with Consumer(broken, on_bad=fail_once, **options) as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.poll(20)
        assert (consumer.skipped, consumer.position()[broken, 0]) == (0, 0)
        assert consumer.poll(20).value.id == 2
        assert (attempts, consumer.skipped) == ([0, 0], 1)
    assert committed_in_first_partition(bootstrap, broken) == 2


@pytest.mark.parametrize("commits_by_hand", [False, True])
def test_a_record_whose_on_bad_failed_is_not_committed(bootstrap: str, broken: str, commits_by_hand: bool) -> None:
    def refuse(_: BadRecord) -> None:
        raise ZeroDivisionError

    with Consumer(broken, bootstrap=bootstrap, group=broken, value=Order, on_bad=refuse) as consumer:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                consumer.poll(20)
        if commits_by_hand:
            consumer.commit()
    assert committed_in_first_partition(bootstrap, broken) in (None, 0)


def test_a_seek_drops_a_record_that_would_be_returned_again(bootstrap: str, broken: str) -> None:
    def refuse(_: BadRecord) -> None:
        raise ZeroDivisionError

    with Consumer(broken, bootstrap=bootstrap, value=Order, stop_at_end=True, on_bad=refuse) as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.poll(20)
        consumer.seek(broken, 0, 1)
        assert [record.offset for record in consumer] == [1]


class Later:
    async def __call__(self, _: BadRecord) -> None: ...

    async def with_reason(self, _: BadRecord, why: str) -> None: ...


@pytest.mark.parametrize("on_bad", [lambda bad: Later().with_reason(bad, "?"), Later()], ids=["lambda", "object"])
def test_an_on_bad_that_returns_a_coroutine_is_refused(bootstrap: str, broken: str, on_bad: OnBad) -> None:
    with Consumer(broken, bootstrap=bootstrap, group=broken, value=Order, on_bad=on_bad) as consumer:
        with pytest.raises(TypeError, match="on_bad returned a coroutine: use AsyncConsumer, or a plain function"):
            consumer.poll(20)
        assert consumer.skipped == 0
    gc.collect()
    assert committed_in_first_partition(bootstrap, broken) in (None, 0)


def test_async_on_bad_gets_a_record_again_when_the_poll_was_cancelled(bootstrap: str, broken: str) -> None:
    async def story() -> None:
        begun, attempts = asyncio.Event(), []

        async def stuck_once(bad: BadRecord) -> None:
            attempts.append(bad.offset)
            begun.set()
            if len(attempts) == 1:
                await asyncio.Event().wait()

        options = {"bootstrap": bootstrap, "group": broken, "value": Order, "stop_at_end": True}
        async with AsyncConsumer(broken, on_bad=stuck_once, **options) as consumer:
            cancelled = asyncio.create_task(consumer.poll())
            await begun.wait()
            cancelled.cancel()
            with suppress(asyncio.CancelledError):
                await cancelled
            assert consumer.skipped == 0
            assert (await consumer.poll(20)).value.id == 2
            assert (attempts, consumer.skipped) == ([0, 0], 1)

    asyncio.run(story())
    assert committed_in_first_partition(bootstrap, broken) == 2


def test_async_a_record_whose_on_bad_failed_is_not_committed(bootstrap: str, broken: str) -> None:
    async def refuse(_: BadRecord) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        options = {"bootstrap": bootstrap, "group": broken, "value": Order}
        async with AsyncConsumer(broken, on_bad=refuse, **options) as consumer:
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await consumer.poll(20)

    asyncio.run(story())
    assert committed_in_first_partition(bootstrap, broken) in (None, 0)


def test_async_poll_respects_its_timeout_between_bad_records(bootstrap: str, half_broken: str) -> None:
    async def story() -> None:
        bad: list[BadRecord] = []
        async with AsyncConsumer(half_broken, bootstrap=bootstrap, value=Order, on_bad=bad.append) as consumer:
            ids: list[int] = []
            while ids != [1, 2]:
                met = len(bad)
                record = await consumer.poll(0)
                ids += [] if record is None else [record.value.id]
                assert len(bad) <= met + 1, "the time was over after the first of them"

    asyncio.run(story())


def test_on_bad_is_checked_before_anything_is_read() -> None:
    async def later(_: BadRecord) -> None: ...

    with pytest.raises(ValueError, match="on_bad='ignore': use 'fail', 'skip', or a function"):
        Consumer("orders", on_bad="ignore")
    with pytest.raises(ValueError, match="on_bad is an async function: use AsyncConsumer"):
        Consumer("orders", on_bad=later)


def test_patterns_and_topics_that_do_not_exist(bootstrap: str, orders: str) -> None:
    pattern = re.compile(re.escape(orders[:-3]) + ".*")
    for group in (None, f"{orders}-pattern"):
        with Consumer(pattern, bootstrap=bootstrap, group=group, stop_at_end=True) as consumer:
            assert len(list(consumer)) == 12
    elsewhere = re.compile(f"nosuch|{re.escape(orders[4:])}")
    for group in (None, f"{orders}-elsewhere"):
        with Consumer(elsewhere, bootstrap=bootstrap, group=group) as consumer:
            assert consumer.poll(1.5) is None, "a pattern matches from the beginning of the name"
    with pytest.raises(UnknownTopic, match='topic "nosuch" does not exist'):
        Consumer("nosuch", bootstrap=bootstrap)
    with Consumer("nosuch", bootstrap=bootstrap, group="nobody") as consumer, pytest.raises(UnknownTopic):
        consumer.poll(20)


def test_a_dropped_consumer_warns_and_leaves_its_group(bootstrap: str, orders: str) -> None:
    options = {"bootstrap": bootstrap, "group": f"{orders}-dropped"}
    consumer = Consumer(orders, **options)
    first = consumer.poll(20)
    with pytest.warns(ResourceWarning, match="unclosed Consumer: use it in a `with` block, or close it"):
        del consumer
    threads_end()
    with Consumer(orders, **options) as other:
        again = [other.poll(20) for _ in range(12)]
    assert first in again, "the record was not committed, so it is read again"


def test_a_dropped_async_consumer_warns_and_ends_its_thread(bootstrap: str, orders: str) -> None:
    async def story() -> None:
        assert await AsyncConsumer(orders, bootstrap=bootstrap, group=f"{orders}-dropped").poll(20) is not None

    with pytest.warns(ResourceWarning, match="unclosed AsyncConsumer"):
        run_and_collect(story())


def test_an_async_consumer_that_was_never_used_has_nothing_to_close(topic: str) -> None:
    AsyncConsumer(topic)
    gc.collect()


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_an_address_in_place_of_a_topic_is_refused(kind: type) -> None:
    with pytest.raises(
        ValueError, match="'localhost:9092' is an address, not a topic: write bootstrap='localhost:9092'"
    ):
        kind("orders", "localhost:9092")


def test_async(bootstrap: str, orders: str) -> None:
    async def read(**options: object) -> list[int]:
        async with AsyncConsumer(orders, bootstrap=bootstrap, value=JSON, stop_at_end=True, **options) as consumer:
            return sorted([record.value["id"] async for record in consumer])

    async def story() -> None:
        assert await read() == list(range(12))
        assert await read(group=f"{orders}-async") == list(range(12))
        assert await read(group=f"{orders}-async") == []

    asyncio.run(story())


def test_async_prefetched_records_are_not_committed(bootstrap: str, orders: str) -> None:
    async def story() -> None:
        options = {"bootstrap": bootstrap, "group": f"{orders}-ahead", "stop_at_end": True}
        async with AsyncConsumer(orders, **options) as consumer:
            first = [await consumer.poll(20), await consumer.poll(20)]
        async with AsyncConsumer(orders, **options) as consumer:
            rest = [record async for record in consumer]
            await consumer.commit(*rest)
        places = [(record.partition, record.offset) for record in first + rest]
        assert sorted(places) == [(partition, offset) for partition in range(3) for offset in range(4)]

    asyncio.run(story())


def test_async_a_cancelled_poll_loses_no_records(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        async with AsyncProducer(bootstrap) as producer, AsyncConsumer(topic, bootstrap=bootstrap) as consumer:
            seen: list[bytes] = []
            for number in range(5):
                with suppress(TimeoutError):
                    seen.append((await asyncio.wait_for(consumer.poll(), 0.02)).value)
                await producer.send_and_wait(topic, str(number), partition=0)
            while len(seen) < 5:
                seen.append((await consumer.poll(10)).value)
            assert seen == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(story())


def test_async_poll_returns_the_first_record_without_waiting_for_more(bootstrap: str, topic: str) -> None:
    async def story() -> float:
        async with AsyncProducer(bootstrap) as producer, AsyncConsumer(topic, bootstrap=bootstrap) as consumer:
            took = []
            for number in range(5):
                began = time.monotonic()
                await producer.send(topic, str(number))
                assert await consumer.poll(10) is not None
                took.append(time.monotonic() - began)
            return min(took)

    assert asyncio.run(story()) < 0.2


def test_two_members_share_the_partitions(bootstrap: str, orders: str) -> None:
    async def story() -> None:
        options = {"bootstrap": bootstrap, "group": f"{orders}-two", "heartbeat_interval_ms": 100}
        async with AsyncConsumer(orders, **options) as one, AsyncConsumer(orders, **options) as two:
            seen: list[tuple[int, int]] = []

            async def drain(consumer: AsyncConsumer) -> None:
                while len(seen) < 12:
                    record = await consumer.poll(0.1)
                    if record is not None:
                        seen.append((record.partition, record.offset))

            await asyncio.gather(drain(one), drain(two))
            assert len(set(seen)) == 12

    asyncio.run(story())
