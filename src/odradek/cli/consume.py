"""`odradek consume`: records to standard output. Without --group it joins nothing and commits nothing."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from odradek.cli.remote import NOT_FOUND, REQUEST_TIMEOUT_S, bootstrap_option, client_config, fail, refusals_told

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

POLL_S = 0.25


@click.command("consume")
@bootstrap_option
@click.argument("topics", nargs=-1, required=True)
@click.option("-g", "--group", help="Share the partitions with this group's members and commit.")
@click.option(
    "-o",
    "--offset",
    default="end",
    show_default=True,
    help="beginning, end, N, -N (the last N of each partition), or @TIME (milliseconds or ISO 8601).",
)
@click.option("-p", "--partition", "partitions", multiple=True, type=int, help="Only this partition; repeatable.")
@click.option("-n", "--count", type=int, help="Stop after this many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop when all partitions are read to their end.")
@click.option(
    "-f",
    "--format",
    "form",
    default="%v\\n",
    show_default=True,
    help="%t topic, %p partition, %o offset, %k key, %v value, %T timestamp in ms, %h headers.",
)
def command(
    bootstrap: str,
    topics: tuple[str, ...],
    group: str | None,
    offset: str,
    partitions: tuple[int, ...],
    count: int | None,
    exit_at_end: bool,
    form: str,
) -> None:
    """Print the records of TOPICS."""
    from confluent_kafka import Consumer

    if group is not None and partitions:
        raise click.UsageError("--partition and --group exclude each other: a group shares all partitions")
    if group is not None and offset not in ("beginning", "end"):
        raise click.UsageError(
            "with --group, --offset is where to begin for the first time, beginning or end: "
            "afterwards a group goes on where it left off"
        )
    consumer = Consumer(
        client_config(
            bootstrap,
            **{
                "group.id": group or "odradek-consume",
                "enable.auto.commit": group is not None,
                "enable.partition.eof": exit_at_end,
                "auto.offset.reset": "earliest" if offset == "beginning" else "latest",
                "partition.assignment.strategy": "cooperative-sticky",
            },
        )
    )
    with refusals_told(bootstrap):
        try:
            if group is None:
                assigned = _positions(consumer, topics, partitions, offset)
                consumer.assign(assigned)
                _print_records(consumer, form, count, len(assigned))
            else:
                consumer.subscribe(list(topics))
                _print_records(consumer, form, count, None)
        except (KeyboardInterrupt, BrokenPipeError):
            pass
        finally:
            consumer.close()


def _positions(consumer: Consumer, topics: tuple[str, ...], only: tuple[int, ...], offset: str) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    known = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    missing = [topic for topic in topics if topic not in known]
    if missing:
        fail(f"there is no topic {missing[0]!r}; `odradek topic ls` shows those that exist", NOT_FOUND)
    asked = [
        TopicPartition(topic, index)
        for topic in topics
        for index in sorted(known[topic].partitions)
        if not only or index in only
    ]
    if not asked:
        fail(f"partition {only[0]} does not exist in {topics[0]!r}", NOT_FOUND)
    return _placed(consumer, asked, offset)


def _placed(consumer: Consumer, asked: list[TopicPartition], offset: str) -> list[TopicPartition]:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    if offset.startswith("@"):
        for tp in asked:
            tp.offset = _milliseconds(offset[1:])
        return list(consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S))
    for tp in asked:
        if offset == "beginning":
            tp.offset = OFFSET_BEGINNING
        elif offset == "end":
            tp.offset = OFFSET_END
        elif re.fullmatch(r"-\d+", offset):
            first, end = consumer.get_watermark_offsets(tp, timeout=REQUEST_TIMEOUT_S)
            tp.offset = max(first, end + int(offset))
        elif offset.isdigit():
            first, end = consumer.get_watermark_offsets(tp, timeout=REQUEST_TIMEOUT_S)
            if not first <= int(offset) <= end:
                fail(f"{tp.topic}-{tp.partition} holds offsets {first} to {end}, not {offset}", NOT_FOUND)
            tp.offset = int(offset)
        else:
            raise click.BadParameter(f"{offset!r}: use beginning, end, N, -N or @TIME", param_hint="--offset")
    return asked


def _milliseconds(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as broken:
        raise click.BadParameter(f"{text!r} is neither milliseconds nor ISO 8601", param_hint="--offset") from broken
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _print_records(consumer: Consumer, form: str, count: int | None, partitions: int | None) -> None:
    from confluent_kafka import KafkaError, KafkaException

    # Latin-1 is what unicode_escape reads; anything else becomes an escape first.
    pattern = form.encode("latin-1", "backslashreplace").decode("unicode_escape")
    printed = 0
    ended: set[tuple[str, int]] = set()
    while count is None or printed < count:
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None:
            sys.stdout.buffer.write(_formatted(pattern, message))
            sys.stdout.buffer.flush()
            printed += 1
            ended.discard((message.topic(), message.partition()))
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka names its own codes so
            ended.add((message.topic(), message.partition()))
            if len(ended) == (partitions if partitions is not None else len(consumer.assignment())):
                break
        else:
            raise KafkaException(error)


def _formatted(pattern: str, message: Message) -> bytes:
    fields = {
        "%t": (message.topic() or "").encode(),
        "%p": str(message.partition()).encode(),
        "%o": str(message.offset()).encode(),
        "%k": message.key() or b"",
        "%v": message.value() or b"",
        "%T": str(message.timestamp()[1]).encode(),
        "%h": b",".join(f"{name}=".encode() + (value or b"") for name, value in message.headers() or []),
    }
    parts = re.split("(%[tpokvTh])", pattern)
    return b"".join(fields.get(part, part.encode()) for part in parts)
