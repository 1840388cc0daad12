"""`odradek perf`: throughput and latency of a cluster, measured by librdkafka on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from odradek.cli.groups import Group
from odradek.cli.names import topic_argument
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import (
    ACKS_HELP,
    CODECS,
    COMPRESSION_HELP,
    REQUEST_TIMEOUT_S,
    bootstrap_option,
    client_config,
    client_options,
    fail,
    refusals_told,
    require_topics,
    require_writable_topic,
)

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar
    from confluent_kafka import Consumer, KafkaError, Message, Producer

MB = 1_000_000
STALLED_S = 30.0


@click.group("perf", cls=Group)
def command() -> None:
    """Measure throughput and latency.

    The clients run on this machine and share its cores with a local broker: use the figures only to compare.
    """


@command.command("produce")
@bootstrap_option
@output_option
@topic_argument()
@click.option("-n", "--records", type=click.IntRange(1), default=100_000, show_default=True, help="Number of records.")
@click.option("-s", "--size", type=click.IntRange(1), default=100, show_default=True, help="Bytes of each value.")
@click.option("--rate", type=click.IntRange(1), help="At most this many records per second.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True, help=ACKS_HELP)
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", help=COMPRESSION_HELP)
@client_options
def produce(
    bootstrap: str, output: str, topic: str, records: int, size: int, rate: int | None, acks: str, compression: str,
    settings: dict[str, str],
) -> None:  # fmt: skip
    """Write records and show records per second, MB per second, and the latency of acknowledgements."""
    from confluent_kafka import Producer

    ours = {"acks": acks, "compression.type": compression, "linger.ms": 5, "queue.buffering.max.messages": 500_000}
    with refusals_told(bootstrap):
        producer = Producer(client_config(bootstrap, **{**ours, **settings}))
        require_writable_topic(producer, topic)
        value = _noise(size)
        acknowledged = _Acknowledged()
        started = time.perf_counter()
        with _bar(records, "producing") as bar:
            for number in range(records):
                if rate is not None:
                    _wait_until(started + number / rate, producer.poll)
                while True:
                    try:
                        producer.produce(topic, value, on_delivery=acknowledged)
                        break
                    except BufferError:
                        producer.poll(0.05)
                if number % 1000 == 999:
                    producer.poll(0)
                    bar.update(1000)
            producer.flush()
        took = time.perf_counter() - started
    if acknowledged.failure is not None:
        fail(f"{acknowledged.failure.str()} ({acknowledged.failure.name()})")
    print_rows([{**_speed(records, records * size, took), **_percentiles(acknowledged.latencies)}], output, nothing="")


@command.command("consume")
@bootstrap_option
@output_option
@topic_argument()
@click.option("-n", "--records", type=click.IntRange(1), help="Number of records. [default: all of the topic]")
@client_options
def consume(bootstrap: str, output: str, topic: str, records: int | None, settings: dict[str, str]) -> None:
    """Read a topic from its beginning and show records per second and MB per second."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    ours = {"group.id": "odradek-perf", "enable.auto.commit": False, "queued.max.messages.kbytes": 131_072}
    with refusals_told(bootstrap):
        consumer = Consumer(client_config(bootstrap, **{**ours, **settings}))
        known = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        require_topics([topic], known)
        places = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in known[topic].partitions]
        spans = [consumer.get_watermark_offsets(tp, timeout=REQUEST_TIMEOUT_S) for tp in places]
        there = sum(end - first for first, end in spans)
        wanted = min(records or there, there)
        if not wanted:
            fail(f'topic "{topic}" has no records. Write some with: odradek perf produce {topic}')
        consumer.assign(places)
        started = time.perf_counter()
        count, size = _read(consumer, wanted)
        took = time.perf_counter() - started
        consumer.close()
    print_rows([_speed(count, size, took)], output, nothing="")


@command.command("e2e")
@bootstrap_option
@output_option
@topic_argument()
@click.option("-n", "--records", type=click.IntRange(1), default=1000, show_default=True, help="Number of records.")
@click.option("-s", "--size", type=click.IntRange(8), default=100, show_default=True, help="Bytes of each value.")
@client_options
def e2e(bootstrap: str, output: str, topic: str, records: int, size: int, settings: dict[str, str]) -> None:
    """Measure the latency from producer to consumer, one record at a time."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    with refusals_told(bootstrap):
        producer = Producer(client_config(bootstrap, **{"linger.ms": 0, **settings}))
        # Commits nothing, so that no group is left behind.
        own = {"group.id": "odradek-perf", "enable.auto.commit": False, "fetch.wait.max.ms": 500}
        consumer = Consumer(client_config(bootstrap, **own))
        require_writable_topic(producer, topic)
        # Starts at an offset: "end" could be resolved after the first record was written.
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=REQUEST_TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, end)])
        value = _noise(size)
        _go_there_and_back(producer, consumer, topic, value)  # connects both
        latencies = []
        with _bar(records, "measuring") as bar:
            for _ in range(records):
                started = time.perf_counter()
                _go_there_and_back(producer, consumer, topic, value)
                latencies.append(time.perf_counter() - started)
                bar.update(1)
        consumer.close()
    print_rows([{"records": records, **_percentiles(latencies)}], output, nothing="")


def _go_there_and_back(producer: Producer, consumer: Consumer, topic: str, value: bytes) -> None:
    written = _written(producer, topic, value)
    while _came_back(consumer) < written:
        pass  # skips records of other producers


def _written(producer: Producer, topic: str, value: bytes) -> int:
    """Writes a record. Returns its offset, or 0 if the broker does not report one."""
    from confluent_kafka import KafkaException

    reports: list[tuple[KafkaError | None, int]] = []
    producer.produce(
        topic, value, partition=0, on_delivery=lambda error, message: reports.append((error, message.offset() or 0))
    )
    producer.flush()
    [(error, offset)] = reports
    if error is not None:
        raise KafkaException(error)
    return offset


def _came_back(consumer: Consumer) -> int:
    """The offset of the next record."""
    from confluent_kafka import KafkaException

    message = consumer.poll(STALLED_S)
    if message is None:
        fail(f"the consumer received no record within {STALLED_S:.0f} s")
    if error := message.error():
        raise KafkaException(error)
    return message.offset() or 0


class _Acknowledged:
    """A delivery callback that collects latencies and the first failure."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = self.failure or error
        else:
            self.latencies.append(message.latency() or 0.0)


def _read(consumer: Consumer, wanted: int) -> tuple[int, int]:
    from confluent_kafka import KafkaException

    count = size = 0
    heard = time.monotonic()
    with _bar(wanted, "consuming") as bar:
        while count < wanted:
            messages = consumer.consume(10_000, 0.5)
            if not messages and time.monotonic() - heard > STALLED_S:
                fail(f"no record arrived for {STALLED_S:.0f} s, after {count} of {wanted}")
            for message in messages:
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                size += len(message)
            heard = time.monotonic() if messages else heard
            count += len(messages)
            bar.update(len(messages))
    return count, size


def _wait_until(moment: float, poll: Callable[[float], int]) -> None:
    while (left := moment - time.perf_counter()) > 0:
        poll(min(left, 0.1))


def _bar(length: int, label: str) -> ProgressBar[int]:
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty())


def _noise(size: int) -> bytes:
    """Data that compresses neither as well as equal bytes nor as badly as random ones."""
    line = b"".join(b"%d,driver-%d,%f;" % (n * 7919 % 10007, n % 97, n / 7) for n in range(size // 20 + 1))
    return line[:size].ljust(size, b".")


def _speed(records: int, size: int, took_s: float) -> dict[str, object]:
    return {
        "records": records,
        "seconds": round(took_s, 3),
        "records_per_s": round(records / took_s),
        "mb_per_s": round(size / took_s / MB, 2),
    }


def _percentiles(latencies_s: Sequence[float]) -> dict[str, object]:
    in_order = sorted(latencies_s) or [0.0]
    last = len(in_order) - 1
    return {
        f"{name}_ms": round(in_order[round(last * share)] * 1000, 3)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0))
    }
