"""Producers of both flavours against a real broker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest

import odradek.client.async_producer as async_producer
from odradek.client import (
    JSON,
    AsyncProducer,
    ClientError,
    Consumer,
    Producer,
    RefusedConfig,
    SendFailed,
)


def everything(bootstrap: str, topic: str, **options: object) -> list:
    with Consumer(topic, bootstrap=bootstrap, stop_at_end=True, **options) as consumer:
        return sorted(consumer, key=lambda record: (record.partition, record.offset))


def test_a_future_tells_where_the_record_is(bootstrap: str, topic: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Producer(bootstrap, key=str, value=JSON) as producer:
        stored = producer.send(topic, {"amount": 3}, "42", headers={"who": "me"}, timestamp=at).result(10)
    (record,) = everything(bootstrap, topic, key=str, value=JSON)
    assert (record.partition, record.offset, record.timestamp) == (stored.partition, 0, at)
    assert (record.key, record.value, record.header("who"), record.header("no")) == ("42", {"amount": 3}, b"me", None)


def test_the_same_key_goes_where_java_puts_it(bootstrap: str, topic: str) -> None:
    # What Utils.murmur2 of Java's client gives for these keys, by its own tests.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    with Producer(bootstrap) as producer:
        places = {key: producer.send(topic, b"", key).result(10).partition for key in hashes}
    assert places == {key: (number & 0x7FFFFFFF) % 3 for key, number in hashes.items()}


def test_a_partitioner_is_a_function(bootstrap: str, topic: str) -> None:
    def by_length(key: bytes | None, value: bytes | None, count: int) -> int:
        return len(value or b"") % count

    with Producer(bootstrap, partitioner=by_length) as producer:
        assert [producer.send(topic, "x" * n).result(10).partition for n in range(4)] == [0, 1, 2, 0]
        assert producer.send(topic, "xx", partition=1).result(10).partition == 1
    with (
        Producer(bootstrap, partitioner=lambda *_: 3) as producer,
        pytest.raises(ValueError, match=r"chose 3, and .* has partitions 0 to 2"),
    ):
        producer.send(topic, "x")


def test_a_tombstone_and_a_full_queue(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, queue_buffering_max_messages=10) as producer:
        futures = [producer.send(topic, None, str(n), partition=0) for n in range(200)]
        producer.flush(10)
        assert [future.result().offset for future in futures] == list(range(200))
    assert {record.value for record in everything(bootstrap, topic)} == {None}


def test_refusals_say_what_was_wrong(bootstrap: str, topic: str) -> None:
    with pytest.raises(RefusedConfig, match=r"'linger.mss' is refused: .*instead: linger.ms"):
        Producer(bootstrap, linger_mss=5)
    with pytest.raises(RefusedConfig, match=r"'value.serializer' is refused: .*instead: value=str"):
        Producer(bootstrap, value_serializer="JsonSerializer")
    with Producer(bootstrap) as producer:
        with pytest.raises(SendFailed, match=rf"sending to '{topic}'.*_UNKNOWN_PARTITION"):
            producer.send(topic, b"x", partition=17).result(10)
        with pytest.raises(SendFailed, match="MSG_SIZE_TOO_LARGE"):
            producer.send(topic, bytes(2_000_000))
    with pytest.raises(RuntimeError, match="closed"):
        producer.send(topic, b"x")
    with (
        Producer(bootstrap, partitioner=lambda *_: 0, **{"allow.auto.create.topics": False}) as producer,
        pytest.raises(ClientError, match=r"asking how many partitions 'a/b' has: .*TOPIC_EXCEPTION"),
    ):
        producer.send("a/b", b"x")


def test_what_was_sent_is_stored_although_nobody_closed(bootstrap: str, topic: str) -> None:
    program = (
        f"from odradek.client import Producer\np = Producer({bootstrap!r}, linger_ms=500)\np.send({topic!r}, b'last')"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert [record.value for record in everything(bootstrap, topic)] == [b"last"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.producer.AT_EXIT_S", 0.2)


def test_what_is_not_stored_by_the_end_has_failed(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    with Producer("127.0.0.1:1") as producer:
        future = producer.send("t", b"x")
    with pytest.raises(SendFailed, match="PURGE"):
        future.result(5)
    assert "1 records were not acknowledged" in caplog.text


def test_what_is_not_stored_by_the_end_has_failed_async(impatient: None) -> None:
    async def story() -> None:
        async with AsyncProducer("127.0.0.1:1") as producer:
            future = await producer.send("t", b"x")
        with pytest.raises(SendFailed, match="PURGE"):
            await asyncio.wait_for(future, 5)

    asyncio.run(story())


def test_the_last_acknowledgement_may_close(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap)
    producer.send(topic, b"x").add_done_callback(lambda _: producer.close())
    patience = time.monotonic() + 5
    while any(thread.name.startswith("odradek-producer") for thread in threading.enumerate()):
        assert time.monotonic() < patience
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="closed"):
        producer.send(topic, b"x")


def test_no_acknowledgement_is_forgotten(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = async_producer.stored_or_failed

    def slowly(*args: Any) -> Any:
        time.sleep(0.001)
        return told(*args)

    async def story() -> None:
        async with AsyncProducer(bootstrap) as producer:
            futures = [await producer.send(topic, b"x") for _ in range(300)]
            patience = time.monotonic() + 10
            while not all(future.done() for future in futures):
                assert time.monotonic() < patience, "some are acknowledged, and nobody tells"
                time.sleep(0.0015)  # noqa: ASYNC251, a loop that has other things to do
                await asyncio.sleep(0)

    monkeypatch.setattr(async_producer, "stored_or_failed", slowly)
    asyncio.run(story())


def test_async(bootstrap: str, topic: str) -> None:
    async def story() -> list[int]:
        async with AsyncProducer(bootstrap, value=JSON, queue_buffering_max_messages=50) as producer:
            first = await producer.send_and_wait(topic, {"n": 0}, partition=1)
            assert first.offset == 0
            futures = [await producer.send(topic, {"n": n}, partition=1) for n in range(1, 300)]
            stored = await asyncio.gather(*futures)
            with pytest.raises(SendFailed):
                await producer.send_and_wait(topic, {}, partition=9)
            left_over = await producer.send(topic, {"n": 300}, partition=1)
        assert (await left_over).offset == 300
        return [place.offset for place in stored]

    assert asyncio.run(story()) == list(range(1, 300))
    assert [record.value["n"] for record in everything(bootstrap, topic, value=JSON)] == list(range(301))


def test_an_async_partitioner_does_not_wait_on_the_loop(bootstrap: str, topic: str) -> None:
    async def story() -> int:
        async with AsyncProducer(bootstrap, partitioner=lambda _key, _value, count: count - 1) as producer:
            return (await producer.send_and_wait(topic, b"x")).partition

    assert asyncio.run(story()) == 2


def test_a_fork_does_not_wait_for_what_only_its_parent_can_send() -> None:
    program = (
        "import os, sys\nfrom odradek.client import Producer\np = Producer('127.0.0.1:1')\np.send('t', b'x')\n"
        "if os.fork() == 0:\n    sys.exit(7)\n"
        "_, status = os.wait()\nos._exit(os.waitstatus_to_exitcode(status))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=20, capture_output=True)
    assert done.returncode == 7
