"""Records, delivery results, and errors of consumers and producers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic

from odradek.client.hints import HINTS
from odradek.client.kinds import K, V

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from odradek.client.serdes import Serde


Headers = Mapping[str, bytes | str | None] | list[tuple[str, bytes | str | None]]


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """One record as it was read. `value` is None for a tombstone.

    `timestamp` is None if the record has none, or one that is no time: some programs write microseconds.
    """

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    key: K
    value: V
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)

    def header(self, name: str) -> bytes | None:
        """The value of the last header with this name."""
        return next((value for known, value in reversed(self.headers) if known == name), None)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a record was stored. The offset is -1 with acks=0: the broker does not report it."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None


class ClientError(Exception):
    """The cluster refused, or did not answer. `name` is Kafka's name of the error, `hint` what to try."""

    def __init__(self, what: str, error: KafkaError) -> None:
        self.error = error
        self.name = error.name()
        self.hint = HINTS.get(self.name)
        told = f"{what}: {error.str()} ({self.name})"
        super().__init__(told if self.hint is None else f"{told}; {self.hint}")


class SendFailed(ClientError):
    """The record is not stored, or its outcome is unknown: it was not acknowledged in time."""


class Undelivered(Exception):
    """Sent records that failed. Raised when a producer ends and the program has not read their futures."""

    def __init__(self, count: int, last: SendFailed) -> None:
        self.count, self.last = count, last
        records = "1 record was" if count == 1 else f"{count} records were"
        super().__init__(f"{records} not delivered, the last one: {last}")


class Unsent(TimeoutError):
    """Sent records are neither acknowledged nor failed yet."""

    def __init__(self, count: int, timeout_s: float, trouble: KafkaError | None = None) -> None:
        self.count = count
        why = "" if trouble is None else f" ({trouble.str()}; {HINTS.get(trouble.name(), trouble.name())})"
        records = "1 record is" if count == 1 else f"{count} records are"
        super().__init__(
            f"{records} not acknowledged after {timeout_s:g} s{why}; their futures will report the outcome"
        )


class BadRecord(ValueError):
    """A record that cannot be decoded. `next` on the same iterator, or `poll`, continues with the next record."""

    def __init__(self, message: Message, part: str, serde: Serde[Any], why: Exception) -> None:
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.raw_key, self.raw_value = message.key(), message.value()
        self.headers: list[tuple[str, bytes | None]] = message.headers() or []
        super().__init__(f"{self.topic}-{self.partition} at offset {self.offset}: its {part} is not {serde!r}: {why}")


def time_of(message: Message) -> datetime | None:
    kind, ms = message.timestamp()
    if not kind:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return None


def record_of(message: Message, key: Serde[Any], value: Serde[Any]) -> Record[Any, Any]:
    parts: dict[str, Any] = {}
    for part, serde, raw in (("key", key, message.key()), ("value", value, message.value())):
        try:
            parts[part] = serde.from_bytes(raw)
        except Exception as unreadable:  # a user's serde may raise anything
            raise BadRecord(message, part, serde, unreadable) from unreadable
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    return Record(topic, partition, offset, time_of(message), parts["key"], parts["value"], message.headers() or [])
