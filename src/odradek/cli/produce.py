"""`odradek produce`: writes each line of input as a record."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from odradek.cli.diagnosis import require_majority
from odradek.cli.names import topic_argument
from odradek.cli.record_sizes import too_large_for_client, too_large_for_topic
from odradek.cli.record_text import bytes_of
from odradek.cli.remote import (
    ACKS_HELP,
    CODECS,
    COMPRESSION_HELP,
    PATIENCE_S,
    REQUEST_TIMEOUT_S,
    bootstrap_option,
    client_config,
    client_options,
    fail,
    fail_without_topic,
    key_value,
    refusals_told,
    require_partitions,
    require_writable_topic,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

FLUSH_TIMEOUT_S = 30.0
RECORD_BYTES_MAX = 100_000_000  # the broker decides what is too large
UNKNOWN_PARTITION = ("_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART")
Headers = list[tuple[str, bytes | str | None]]


@dataclass(slots=True)
class Outgoing:
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp: int | None = None


@click.command("produce")
@bootstrap_option
@topic_argument()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-i",
    "--input",
    "form",
    type=click.Choice(["lines", "jsonl"]),
    default="lines",
    show_default=True,
    help="One record per line, or one JSON document per line as `odradek consume -f jsonl` prints it.",
)
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", help="Split each line into key and value at this text.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Write an empty value as null, a tombstone.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Write to this partition, regardless of the key.")
@click.option("--keep-partition", is_flag=True, help="With jsonl: write to the partition that the document names.")
@click.option("--rate", type=click.IntRange(1), help="At most this many records per second.")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", help=COMPRESSION_HELP)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True, help=ACKS_HELP)
@client_options
def command(
    bootstrap: str, topic: str, files: tuple[Path, ...], form: str, compression: str, acks: str, rate: int | None,
    settings: dict[str, str], **shape: Any,  # noqa: ANN401, what _record_maker takes
) -> None:  # fmt: skip
    """Write each line of FILES, or of standard input, to TOPIC as one record."""
    to_record = _record_maker(form, **shape)
    with refusals_told(bootstrap):
        producer = _producer(bootstrap, compression, acks, settings)
        require_writable_topic(producer, topic)
        sending = _Sending(bootstrap, producer, topic, int(settings.get("message.max.bytes", RECORD_BYTES_MAX)))
        try:
            with _lines(files) as lines:
                for number, line in enumerate(_paced(lines, rate), 1):
                    sending.send(to_record(line, number))
        finally:
            # Also after an invalid line or Ctrl-C: the records before it are written.
            sending.finish()


def _producer(bootstrap: str, compression: str, acks: str, settings: dict[str, str]) -> Producer:
    from confluent_kafka import Producer

    ours = {
        "acks": acks,
        "compression.type": compression,
        "partitioner": "murmur2_random",
        "enable.idempotence": acks == "all",
        "message.timeout.ms": int(FLUSH_TIMEOUT_S * 1000),
        "message.max.bytes": RECORD_BYTES_MAX,
    }
    return Producer(client_config(bootstrap, **{**ours, **settings}))


class _Sending:
    """Sends records to one topic until the first failure."""

    def __init__(self, bootstrap: str, producer: Producer, topic: str, bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._bootstrap = bootstrap
        self._producer = producer
        self._topic = topic
        self._bytes_max = bytes_max
        self._failure: KafkaException | None = None
        self._bytes_failed = 0
        self._partition_failed: int | None = None

    def send(self, record: Outgoing) -> None:
        from confluent_kafka import KafkaError, KafkaException

        place: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        moment: dict[str, int] = {} if record.timestamp is None else {"timestamp": record.timestamp}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=record.headers or None,
                    on_delivery=self._delivered,
                    **place,
                    **moment,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as refused:
                if refused.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    too_large_for_client(_size(record.key, record.value), self._bytes_max)
                self._require_partition(refused, record.partition)
                raise
        self._producer.poll(0)
        self._raise_failure()

    def finish(self) -> None:
        waiting = len(self._producer)
        # Wait while acknowledgements arrive: even without a metadata majority, partitions may have leaders.
        while (unsent := self._producer.flush(PATIENCE_S)) and unsent < waiting:
            waiting = unsent
        if unsent:
            require_majority(
                self._bootstrap, lost=f"{unsent} record{'s were' if unsent > 1 else ' was'} not acknowledged: "
            )
            unsent = self._producer.flush(FLUSH_TIMEOUT_S + 5)
        self._raise_failure()
        if unsent:
            fail(f"{unsent} records were not acknowledged within {FLUSH_TIMEOUT_S:.0f} s")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        from confluent_kafka import KafkaException

        if error is not None and self._failure is None:
            self._failure = KafkaException(error)
            self._bytes_failed = _size(message.key(), message.value())
            self._partition_failed = message.partition()

    def _raise_failure(self) -> None:
        from confluent_kafka import KafkaError

        if self._failure is None:
            return
        if self._failure.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
            too_large_for_topic(self._bootstrap, self._topic, self._bytes_failed)
        self._require_partition(self._failure, self._partition_failed)
        raise self._failure

    def _require_partition(self, refused: KafkaException, index: int | None) -> None:
        """Ends the command if the record was refused because its topic or its partition does not exist."""
        if refused.args[0].name() not in UNKNOWN_PARTITION:
            return
        # All topics: a request for this one would create it again.
        known = self._producer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        if self._topic not in known or not known[self._topic].partitions:
            fail_without_topic(self._topic, set(known) - {self._topic})
        if index is not None and index >= 0:
            require_partitions(self._topic, [index], known[self._topic].partitions)


def _size(*parts: bytes | str | None) -> int:
    return sum(len(part) for part in parts if part is not None)


def _record_maker(
    form: str,
    *,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    empty_is_null: bool,
    partition: int | None,
    keep_partition: bool,
) -> Callable[[bytes, int], Outgoing]:
    pairs: Headers = [key_value(header, "NAME=VALUE", "--header") for header in headers]
    default_key = None if key is None else key.encode()

    def from_line(line: bytes, _number: int) -> Outgoing:
        own_key, value = default_key, line
        if key_separator is not None:
            head, found, tail = line.partition(key_separator.encode())
            if found:
                own_key, value = head, tail
        return Outgoing(own_key, None if empty_is_null and not value else value, pairs, partition)

    def from_json(line: bytes, number: int) -> Outgoing:
        try:
            document = json.loads(line)
            own: Headers = [(str(name), bytes_of(value)) for name, value in _field(document, "headers", list) or []]
            own_key, value = bytes_of(document.get("key")), bytes_of(document.get("value"))
            timestamp = _field(document, "timestamp", int)
            place = _field(document, "partition", int) if keep_partition else partition
        except (ValueError, AttributeError, TypeError) as broken:
            fail(
                f"line {number} is not a record as `odradek consume -f jsonl` prints it ({broken}). "
                "The lines before it were written"
            )
        return Outgoing(default_key if own_key is None else own_key, value, own + pairs, place, timestamp)

    return from_json if form == "jsonl" else from_line


def _field(document: dict[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401, any JSON value
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, not {kind.__name__}")
    return value


def _lines(files: tuple[Path, ...]) -> AbstractContextManager[Iterable[bytes]]:
    if not files:
        if sys.stdin.isatty():
            click.echo("Type one record per line; Ctrl-D ends the input", err=True)
        return nullcontext(line.rstrip(b"\n") for line in sys.stdin.buffer)
    return nullcontext(_lines_of(files))


def _lines_of(files: tuple[Path, ...]) -> Iterator[bytes]:
    total = sum(file.stat().st_size for file in files)
    with click.progressbar(length=total, label="producing", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        for path in files:
            with path.open("rb") as file:
                yield from _counted(file, bar.update)


def _counted(file: IO[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in file:
        yield line.rstrip(b"\n")
        advance(len(line))


def _paced(lines: Iterable[bytes], rate: int | None) -> Iterator[bytes]:
    started = time.monotonic()
    for number, line in enumerate(lines):
        if rate is not None:
            time.sleep(max(started + number / rate - time.monotonic(), 0))
        yield line
