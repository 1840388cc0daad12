"""Producer and AsyncProducer against a real broker."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import confluent_kafka
import pytest

from client.threads import run_and_collect, threads_end
from odradek.client import (
    JSON,
    Admin,
    AsyncProducer,
    ClientError,
    Consumer,
    Producer,
    RefusedConfig,
    SendFailed,
    Undelivered,
    Unsent,
)
from odradek.client.deliveries import AT_END_S, Deliveries
from odradek.testing import Embedded
from support.waiting import wait_until


def everything(bootstrap: str, topic: str, **options: object) -> list:
    with Consumer(topic, bootstrap=bootstrap, stop_at_end=True, **options) as consumer:
        return sorted(consumer, key=lambda record: (record.partition, record.offset))


def test_the_future_returns_where_the_record_was_stored(bootstrap: str, topic: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Producer(bootstrap, key=str, value=JSON) as producer:
        stored = producer.send(topic, {"amount": 3}, "42", headers={"who": "me"}, timestamp=at).result(60)
    (record,) = everything(bootstrap, topic, key=str, value=JSON)
    assert (record.partition, record.offset, record.timestamp) == (stored.partition, 0, at)
    assert (record.key, record.value, record.header("who"), record.header("no")) == ("42", {"amount": 3}, b"me", None)


MICROSECONDS = 1_767_225_600_000_000


def test_a_timestamp_that_is_no_time_is_refused_at_the_call(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        for wrong in (MICROSECONDS, -1, datetime(1969, 12, 31, tzinfo=UTC)):
            with pytest.raises(
                ValueError, match=r"is not between 1970 and the year 9999; give .* \(not microseconds\)"
            ):
                producer.send(topic, b"x", timestamp=wrong)
    assert everything(bootstrap, topic) == []


def test_records_whose_timestamps_are_no_times_are_read(bootstrap: str, topic: str) -> None:
    Admin(bootstrap).set_topic_config(topic, message_timestamp_after_max_ms=str(2**63 - 1))
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for timestamp_ms in (MICROSECONDS, 2**62, MICROSECONDS // 1000):
        other.produce(topic, b"x", partition=0, timestamp=timestamp_ms)
    assert other.flush(60) == 0
    times = [record.timestamp for record in everything(bootstrap, topic)]
    assert times == [None, None, datetime(2026, 1, 1, tzinfo=UTC)]


def test_a_key_maps_to_the_same_partition_as_in_java(bootstrap: str, topic: str) -> None:
    # What Utils.murmur2 of Java's client gives for these keys, by its own tests.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    with Producer(bootstrap) as producer:
        places = {key: producer.send(topic, b"", key).result(60).partition for key in hashes}
    assert places == {key: (number & 0x7FFFFFFF) % 3 for key, number in hashes.items()}


def test_a_partitioner_is_a_function(bootstrap: str, topic: str) -> None:
    def by_length(key: bytes | None, value: bytes | None, count: int) -> int:
        return len(value or b"") % count

    with Producer(bootstrap, partitioner=by_length) as producer:
        assert [producer.send(topic, "x" * n).result(60).partition for n in range(4)] == [0, 1, 2, 0]
        assert producer.send(topic, "xx", partition=1).result(60).partition == 1
    with (
        Producer(bootstrap, partitioner=lambda *_: 3) as producer,
        pytest.raises(ValueError, match=r"chose 3, but .* has partitions 0 to 2"),
    ):
        producer.send(topic, "x")


def test_a_tombstone_and_a_full_queue(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, queue_buffering_max_messages=10) as producer:
        futures = [producer.send(topic, None, str(n), partition=0) for n in range(200)]
        producer.flush(60)
        assert [future.result().offset for future in futures] == list(range(200))
    assert {record.value for record in everything(bootstrap, topic)} == {None}


def test_errors_name_the_config_or_topic(bootstrap: str, topic: str) -> None:
    with pytest.raises(RefusedConfig, match=r"'linger.mss' is refused: .*instead: linger.ms"):
        Producer(bootstrap, linger_mss=5)
    with pytest.raises(RefusedConfig, match=r"'value.serializer' is refused: .*instead: value=str"):
        Producer(bootstrap, value_serializer="JsonSerializer")
    with Producer(bootstrap) as producer:
        with pytest.raises(SendFailed, match=rf"sending to '{topic}'.*_UNKNOWN_PARTITION"):
            producer.send(topic, b"x", partition=17).result(60)
        with pytest.raises(SendFailed, match="MSG_SIZE_TOO_LARGE"):
            producer.send(topic, bytes(2_000_000))
    with pytest.raises(RuntimeError, match="closed"):
        producer.send(topic, b"x")
    with (
        Producer(bootstrap, partitioner=lambda *_: 0, **{"allow.auto.create.topics": False}) as producer,
        pytest.raises(ClientError, match=r"asking how many partitions 'a/b' has: .*TOPIC_EXCEPTION"),
    ):
        producer.send("a/b", b"x")


SENT = "from odradek.client import Producer\np = Producer({!r}, linger_ms=500)\np.send({!r}, b'last')"
ASYNC_SENT = """
import asyncio
from odradek.client import AsyncProducer
async def story():
    global p
    p = AsyncProducer({!r}, linger_ms=500)
    await p.send({!r}, b'last')
asyncio.run(story())
"""


@pytest.mark.parametrize("program", [SENT, ASYNC_SENT], ids=["Producer", "AsyncProducer"])
def test_records_of_an_unclosed_producer_are_stored_at_exit(bootstrap: str, topic: str, program: str) -> None:
    options = ["-W", "default::ResourceWarning", "-c", program.format(bootstrap, topic)]
    done = subprocess.run([sys.executable, *options], check=True, timeout=60, capture_output=True, text=True)
    assert "ResourceWarning: unclosed " in done.stderr
    assert [record.value for record in everything(bootstrap, topic)] == [b"last"]


def test_an_async_producer_without_its_loop_logs_undelivered_records() -> None:
    hurry = "import odradek.client.deliveries as it\nit.NOBODY_THERE_S = it.ASK_S = 0.2\n"
    refused = "import time\nwhile p._deliveries._reach.trouble is None:\n    time.sleep(0.01)\n"
    program = hurry + ASYNC_SENT.format("127.0.0.1:1", "t") + refused
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert re.search(NOBODY, done.stderr)


def test_a_dropped_producer_warns_stores_and_ends_its_thread(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap, linger_ms=500)
    producer.send(topic, b"last")
    with pytest.warns(ResourceWarning, match="unclosed Producer: use it in a `with` block, or close it"):
        del producer
    threads_end()
    assert [record.value for record in everything(bootstrap, topic)] == [b"last"]


def test_a_dropped_async_producer_warns_stores_and_ends_its_thread(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        await AsyncProducer(bootstrap).send_and_wait(topic, b"last")

    with pytest.warns(ResourceWarning, match="unclosed AsyncProducer"):
        run_and_collect(story())
    assert [record.value for record in everything(bootstrap, topic)] == [b"last"]


def test_a_dropped_producer_without_a_broker_logs_undelivered_records(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer("127.0.0.1:1")
    producer.send("t", b"x")
    refused(producer)
    with pytest.warns(ResourceWarning):
        del producer
    threads_end()
    assert re.search(NOBODY, caplog.text)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.deliveries.NOBODY_THERE_S", 0.2)
    monkeypatch.setattr("odradek.client.deliveries.ASK_S", 0.2)


NOBODY = (
    r"1 record was not delivered, the last one: sending to 't' on 127\.0\.0\.1:1, given up after 0\.2 s when the "
    r"producer ended: 127\.0\.0\.1:1/bootstrap: .*Connection refused .*\(_TRANSPORT\); is a broker running there, "
)


def refused(producer: Producer | AsyncProducer) -> None:
    """Waits until the producer knows why it cannot reach a broker, so that its error has the reason."""
    wait_until(lambda: producer._deliveries._reach.trouble is not None, "the reason of the failure")


def send_to_nobody() -> None:
    with Producer("127.0.0.1:1") as producer:
        producer.send("t", b"x")
        refused(producer)


async def send_to_nobody_async() -> None:
    async with AsyncProducer("127.0.0.1:1") as producer:
        await producer.send("t", b"x")
        refused(producer)


def send_and_close(bootstrap: str, topic: str, count: int = 1, **config: object) -> None:
    with Producer(bootstrap, **config) as producer:
        for _ in range(count):
            producer.send(topic, b"x")


async def send_and_close_async(bootstrap: str, topic: str, **config: object) -> None:
    async with AsyncProducer(bootstrap, **config) as producer:
        await producer.send(topic, b"x")


def test_a_producer_without_a_broker_closes_soon_and_raises_undelivered(impatient: None) -> None:
    began = time.monotonic()
    with pytest.raises(Undelivered, match=NOBODY) as told:
        send_to_nobody()
    assert time.monotonic() - began < AT_END_S
    assert (told.value.count, told.value.last.name) == (1, "_TRANSPORT")
    with pytest.raises(Undelivered, match=NOBODY):
        asyncio.run(send_to_nobody_async())


def test_a_flush_without_a_broker_reports_the_connection_error(impatient: None) -> None:
    producer = Producer("127.0.0.1:1")
    future = producer.send("t", b"x")
    refused(producer)
    with pytest.raises(Unsent, match=r"1 record is not acknowledged after 0\.5 s \(.*refused.*; is a broker running"):
        producer.flush(0.5)
    with pytest.raises(Undelivered):
        producer.close()
    with pytest.raises(SendFailed, match=r"given up after 0\.2 s .*refused"):
        future.result()


def test_close_waits_longer_when_a_broker_answers(
    broker: Embedded, bootstrap: str, topic: str, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.client.deliveries.ASK_S", 5)
    broker.delay("Produce", ms=1500)
    send_and_close(bootstrap, topic)
    assert len(everything(bootstrap, topic)) == 1


@pytest.fixture
def refusing(broker: Embedded) -> Iterator[str]:
    """A broker that refuses all records."""
    broker.fail("Produce", "INVALID_RECORD", times=None)
    yield broker.bootstrap_servers
    broker.calm()


def test_close_raises_failures_unless_their_futures_were_read(refusing: str, topic: str) -> None:
    with Producer(refusing, acks=1) as producer:
        with pytest.raises(SendFailed):
            producer.send(topic, b"x").result(60)
        assert producer.send(topic, b"x").exception(10) is not None
        producer.send(topic, b"x").add_done_callback(lambda _: None)
        waiting = threading.Thread(target=producer.send(topic, b"x").exception)
        waiting.start()
    waiting.join()
    with pytest.raises(Undelivered, match=r"3 records were not delivered, .*INVALID_RECORD"):
        send_and_close(refusing, topic, count=3, acks=1)


def test_async_close_raises_failures_unless_their_futures_were_read(refusing: str, topic: str) -> None:
    async def story() -> None:
        async with AsyncProducer(refusing, acks=1) as producer:
            (await producer.send(topic, b"x")).cancel()
            failing = [await producer.send(topic, b"x") for _ in range(6)]
            with pytest.raises(SendFailed):
                await failing[0]
            with pytest.raises(SendFailed):
                await asyncio.wait_for(failing[1], 60)
            await asyncio.gather(*failing[2:4], return_exceptions=True)
            await asyncio.wait(failing[4:5])
            await producer.flush()
            with pytest.raises(SendFailed):
                await failing[5]
        with pytest.raises(Undelivered, match=r"1 record was not delivered, .*INVALID_RECORD"):
            await send_and_close_async(refusing, topic, acks=1)

    asyncio.run(story())


def test_undelivered_records_do_not_hide_an_error_of_the_with_block(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        with Producer("127.0.0.1:1") as producer:
            producer.send("t", b"x")
            raise ZeroDivisionError

    async def fail_async() -> None:
        async with AsyncProducer("127.0.0.1:1") as producer:
            await producer.send("t", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail_async())
    assert caplog.text.count("1 record was not delivered") == 2


def test_a_cancelled_close_logs_undelivered_records(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        producer = AsyncProducer("127.0.0.1:1")
        await producer.send("t", b"x")
        refused(producer)
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(story())
    assert re.search(NOBODY, caplog.text)


def test_a_delivery_callback_may_close_the_producer(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap)
    producer.send(topic, b"x").add_done_callback(lambda _: producer.close())
    threads_end()
    with pytest.raises(RuntimeError, match="closed"):
        producer.send(topic, b"x")


def test_a_send_that_waits_for_room_fails_when_the_producer_is_closed(impatient: None) -> None:
    """After the close no thread would report the record's outcome."""
    told: list[str] = []

    def send_late(producer: Producer) -> None:
        with pytest.raises(RuntimeError, match="closed"):
            producer.send("t", b"no room")
        told.append("sync")

    async def story() -> None:
        producer = AsyncProducer("127.0.0.1:1", queue_buffering_max_messages=1)
        await producer.send("t", b"x")
        late = asyncio.create_task(producer.send("t", b"no room"))
        await asyncio.sleep(0)
        with pytest.raises(Undelivered):
            await producer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await late

    asyncio.run(story())
    producer = Producer("127.0.0.1:1", queue_buffering_max_messages=1)
    producer.send("t", b"x")
    late = threading.Thread(target=send_late, args=(producer,))
    late.start()
    with pytest.raises(Undelivered):
        producer.close()
    late.join()
    assert told == ["sync"]


def test_no_acknowledgement_is_lost_between_threads(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Deliveries.outcome

    def slowly(*args: Any) -> Any:
        time.sleep(0.001)
        return told(*args)

    async def story() -> None:
        async with AsyncProducer(bootstrap) as producer:
            futures = [await producer.send(topic, b"x") for _ in range(300)]
            patience = time.monotonic() + 10
            while not all(future.done() for future in futures):
                assert time.monotonic() < patience, "the futures of acknowledged records are not done"
                time.sleep(0.0015)  # noqa: ASYNC251, a loop that has other things to do
                await asyncio.sleep(0)

    monkeypatch.setattr(Deliveries, "outcome", slowly)
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


def test_a_forked_process_does_not_wait_for_its_parents_records() -> None:
    program = (
        "import os, sys\nfrom odradek.client import Producer\np = Producer('127.0.0.1:1')\np.send('t', b'x')\n"
        "if os.fork() == 0:\n    sys.exit(7)\n"
        "_, status = os.wait()\nos._exit(os.waitstatus_to_exitcode(status))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=20, capture_output=True)
    assert done.returncode == 7
