"""`odradek consume`: prints records. Without --group it joins no group and commits nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from odradek.cli.diagnosis import require_leaders
from odradek.cli.names import complete_groups, topic_argument
from odradek.cli.offsets import Place, Span, parse_span
from odradek.cli.record_text import Formatter, formatter
from odradek.cli.remote import (
    NOT_FOUND,
    REQUEST_TIMEOUT_S,
    bootstrap_option,
    client_config,
    client_options,
    fail,
    fail_without_partition,
    refusals_told,
    require_topics,
)
from odradek.cli.watching import Watch

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

POLL_S = 0.25
# Lower than librdkafka's default, because a user is waiting.
RECONNECT_MS_MAX = 2000
IDLE_POLLS_BETWEEN_LOOKS = 8
Position = tuple[str, int]

EPILOG = """\b
-o/--offset: beginning, end, 42, -100 (the last hundred), +10 (after the first ten), @TIME,
  or BEGIN:UNTIL, where UNTIL is exclusive (3:5 is 3 and 4); `5:` waits for more, `:` reads to the current end.
  TIME: milliseconds, 2026-11-01T10:00 (UTC), or -15m.
-f/--format: %t topic, %p partition, %o offset, %k key, %v value, %T timestamp in ms, %d{strftime},
  %h headers or %h{%k=%v }, %K and %S lengths; %k{hex}, %v{base64}, %v{json}.
  `-f jsonl` prints the input format of `odradek produce --input jsonl`."""


@click.command("consume", epilog=EPILOG)
@bootstrap_option
@topic_argument("topics", many=True)
@click.option("-g", "--group", help="Join this consumer group and commit offsets.", shell_complete=complete_groups)
@click.option("-o", "--offset", default="end", show_default=True, help="Where to begin and, optionally, to stop.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Only these partitions (0,1 or repeated).")
@click.option("-n", "--count", type=click.IntRange(0), help="Stop after this many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at the end of all partitions.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="read_uncommitted also prints records of open and aborted transactions.",
)
@click.option("-f", "--format", "form", default="%v\\n", show_default=True, help="How to print a record; see below.")
@client_options
def command(
    bootstrap: str,
    topics: tuple[str, ...],
    group: str | None,
    offset: str,
    partitions: tuple[str, ...],
    count: int | None,
    exit_at_end: bool,
    isolation: str,
    form: str,
    settings: dict[str, str],
) -> None:
    """Print the records of TOPICS."""
    span = parse_span(offset, datetime.now(UTC))
    _check_group(group, partitions, span)
    watch = Watch(bootstrap, topics)
    printer = _Printer(formatter(form), count, watch)
    with refusals_told(bootstrap), _ended_by_sigterm():
        ours = {"error_cb": watch.on_error, "isolation.level": isolation}
        consumer = _consumer(bootstrap, group, span, {**ours, **settings})
        try:
            if group is None:
                _read_all(bootstrap, consumer, topics, _numbers(partitions), span, exit_at_end, printer)
            else:
                consumer.subscribe(list(topics))
                printer.follow(consumer, ends_of=consumer.assignment if exit_at_end else None)
        except (KeyboardInterrupt, BrokenPipeError):
            pass
        finally:
            consumer.close()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C: commits what was printed and leaves the group."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_group(group: str | None, partitions: tuple[str, ...], span: Span) -> None:
    if group is not None and partitions:
        raise click.UsageError(
            "--partition and --group cannot be combined: a group assigns all partitions to its members"
        )
    if group is not None and (span.until is not None or span.begin not in (Place("beginning"), Place("end"))):
        raise click.UsageError(
            "with --group, --offset must be beginning or end; it applies only where the group has no committed offset. "
            "Change committed offsets with: odradek group reset"
        )


def _numbers(texts: tuple[str, ...]) -> list[int]:
    try:
        return [int(part) for text in texts for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{','.join(texts)!r}: use numbers, such as 0,1", param_hint="--partition") from None


def _consumer(bootstrap: str, group: str | None, span: Span, settings: Mapping[str, object]) -> Consumer:
    from confluent_kafka import Consumer

    ours = {
        "group.id": group or "odradek-consume",
        # Tells several `odradek consume` processes apart.
        "client.id": f"odradek-{os.getpid()}",
        "enable.auto.commit": group is not None,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest" if span.begin == Place("beginning") else "latest",
        "partition.assignment.strategy": "cooperative-sticky",
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "check.crcs": True,
    }
    return Consumer(client_config(bootstrap, **{**ours, **settings}))


def _read_all(
    bootstrap: str, consumer: Consumer, topics: tuple[str, ...], only: list[int], span: Span, exit_at_end: bool,
    printer: _Printer,
) -> None:  # fmt: skip
    assigned = _asked(bootstrap, consumer, topics, only)
    stops: dict[Position, int] = {}
    for tp in assigned:
        tp.offset = span.begin.resolve(consumer, tp, REQUEST_TIMEOUT_S)
        _require_inside(consumer, tp, span.begin)
        if span.until is not None:
            stops[tp.topic, tp.partition] = span.until.resolve(consumer, tp, REQUEST_TIMEOUT_S)
    if span.until is not None:
        # A range does not wait for records that are not written yet.
        assigned = [tp for tp in assigned if tp.offset < stops[tp.topic, tp.partition]]
        if not assigned:
            click.echo("no records in this range", err=True)
            return
    consumer.assign(assigned)
    printer.follow(consumer, ends_of=(lambda: assigned) if exit_at_end or stops else None, stops=stops)


def _asked(bootstrap: str, consumer: Consumer, topics: tuple[str, ...], only: list[int]) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    metadata = consumer.list_topics(timeout=REQUEST_TIMEOUT_S)
    known = metadata.topics
    require_topics(topics, known)
    absent = [number for number in only if not any(number in known[topic].partitions for topic in topics)]
    if absent:
        fail_without_partition(topics[0], absent[0], len(known[topics[0]].partitions))
    wanted = [
        (topic, index)
        for topic in dict.fromkeys(topics)
        for index in sorted(known[topic].partitions)
        if not only or index in only
    ]
    require_leaders(bootstrap, metadata, wanted)
    return [TopicPartition(*place) for place in wanted]


def _require_inside(consumer: Consumer, tp: TopicPartition, begin: Place) -> None:
    if begin.kind != "offset":
        return
    first, end = consumer.get_watermark_offsets(tp, timeout=REQUEST_TIMEOUT_S)
    if not first <= tp.offset <= end:
        held = (
            f"its first offset is {first}, its last {end - 1}"
            if first < end
            else f"it is empty, its next offset is {end}"
        )
        fail(f"{tp.topic}-{tp.partition} has no offset {tp.offset}: {held}", NOT_FOUND)


class _Printer:
    def __init__(self, formatted: Formatter, count: int | None, watch: Watch) -> None:
        self._formatted = formatted
        self._left = count
        self._watch = watch

    def follow(
        self,
        consumer: Consumer,
        *,
        ends_of: Callable[[], list[TopicPartition]] | None = None,
        stops: Mapping[Position, int] = MappingProxyType({}),
    ) -> None:
        """Prints until the count is reached, or with `ends_of` until these partitions are read to their end or stop."""
        from confluent_kafka import KafkaError, KafkaException

        ended: set[Position] = set()
        idle_polls = 0
        while self._left is None or self._left > 0:
            message = consumer.poll(POLL_S)
            if message is None:
                idle_polls += 1
                if idle_polls % IDLE_POLLS_BETWEEN_LOOKS == 0 or self._watch.suspicious:
                    self._watch.look(consumer)
                continue
            error = message.error()
            place = (message.topic() or "", message.partition() or 0)
            if error is None:
                if place not in stops or (message.offset() or 0) < stops[place]:
                    self._print(self._formatted(message))
                    ended.discard(place)
                if place in stops and (message.offset() or 0) + 1 >= stops[place]:
                    ended.add(place)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka names its own codes so
                ended.add(place)
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and place[0].startswith("^"):
                continue  # a pattern waits for matching topics
            elif error.code() == KafkaError._BAD_MSG:  # noqa: SLF001
                hint = f"Check the leader's disk with `odradek log verify` on the directory {place[0]}-{place[1]}"
                fail(f"{place[0]}[{place[1]}]: {error.str()}. {hint}")
            else:
                raise KafkaException(error)
            # Compares names: a rebalance may have revoked partitions that had ended.
            if ends_of is not None and ended.issuperset((tp.topic, tp.partition) for tp in ends_of()):
                break

    def _print(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        if self._left is not None:
            self._left -= 1
