"""Dead letters read back from their topic, and written to the topics that they came from.

A letter is redriven in one transaction with a mark: a record without key and value in the dead-letter topic, whose
header names the letter. Letters with a mark are not redriven again, so a redrive that was killed can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from odradek.client import Consumer, Producer
from odradek.client.records import Record
from odradek.connect.tasks.dead_letters import HEADER

REDRIVEN = "odradek.redriven"
PER_TRANSACTION = 500


@dataclass(frozen=True, slots=True)
class Place:
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter. Parts of its context are None if the connector wrote no context headers."""

    record: Record[Any, Any]

    @property
    def place(self) -> Place:
        return Place(self.record.topic, self.record.partition, self.record.offset)

    def context(self, name: str) -> str | None:
        found = self.record.header(HEADER + name)
        return None if found is None else found.decode(errors="replace")

    @property
    def origin(self) -> Place | None:
        """Where the record was read. None for the record of a source, which was in no topic."""
        topic, partition, offset = (self.context(name) for name in ("topic", "partition", "offset"))
        if topic is None or partition is None or offset is None:
            return None
        try:
            return Place(topic, int(partition), int(offset))
        except ValueError:
            return None

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers that the record had before it failed."""
        return [(name, data) for name, data in self.record.headers if not name.startswith(HEADER) and name != REDRIVEN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which letters: those for which everything that is given is equal."""

    connector: str | None = None
    stage: str | None = None
    exception: str | None = None
    places: frozenset[tuple[int, int]] = frozenset()

    def has(self, letter: Letter) -> bool:
        exception = letter.context("exception.class.name") or ""
        return (
            self.connector in (None, letter.context("connector.name"))
            and self.stage in (None, letter.context("stage"))
            and (self.exception is None or self.exception in (exception, exception.rpartition(".")[2]))
            and (not self.places or (letter.record.partition, letter.record.offset) in self.places)
        )


class NoOrigin(LookupError):
    """A letter that does not name the topic it came from."""

    def __init__(self, letter: Letter) -> None:
        super().__init__(
            f"{letter.place} does not say which topic it came from: it is the record of a source, or the connector has "
            "no errors.deadletterqueue.context.headers.enable=true. Name the topic with --to"
        )


class DeadLetterTopic:
    """The letters of one topic of one cluster."""

    def __init__(self, bootstrap: str, topic: str, clients: Mapping[str, Any] | None = None) -> None:
        self._bootstrap, self._topic, self._clients = bootstrap, topic, clients or {}

    def _records(self) -> Iterator[Record[Any, Any]]:
        with Consumer(
            self._topic,
            bootstrap=self._bootstrap,
            stop_at_end=True,
            isolation_level="read_committed",
            # The end is known as soon as a fetch finds nothing.
            fetch_wait_max_ms=20,
            **self._clients,
        ) as consumer:
            yield from consumer

    def _marks(self) -> frozenset[bytes]:
        return frozenset(mark for record in self._records() if (mark := _mark(record)) is not None)

    def letters(self, selection: Selection, limit: int | None = None) -> Iterator[Letter]:
        """Letters that were not redriven yet, partition by partition in order."""
        redriven = self._marks()
        found = (
            letter
            for record in self._records()
            if _mark(record) is None and _name(letter := Letter(record)) not in redriven and selection.has(letter)
        )
        return islice(found, limit)

    def redrive(self, selection: Selection, to: str | None = None, limit: int | None = None) -> Iterator[Letter]:
        """Writes letters to their origin, or to the topic `to`. Yields each when it is committed. Raises NoOrigin."""
        with Producer(
            bootstrap=self._bootstrap, transactional_id=f"odradek-redrive-{self._topic}", **self._clients
        ) as producer:
            # The first transaction fences another redrive of this topic: its marks are complete from here on.
            with producer.transaction():
                pass
            letters = self.letters(selection, limit)
            while batch := list(islice(letters, PER_TRANSACTION)):
                self._write(producer, batch, to)
                yield from batch

    def _write(self, producer: Producer[Any, Any], letters: Iterable[Letter], to: str | None) -> None:
        with producer.transaction() as transaction:
            for letter in letters:
                origin = letter.origin
                if to is None and origin is None:
                    raise NoOrigin(letter)
                place = str(letter.place).encode()
                transaction.send(
                    to or (origin.topic if origin else ""),
                    letter.record.value,
                    key=letter.record.key,
                    headers=[*letter.headers, (REDRIVEN, place)],
                    timestamp=letter.record.timestamp,
                    partition=None if to is not None or origin is None else origin.partition,
                )
                transaction.send(
                    self._topic, None, partition=letter.record.partition, headers=[(REDRIVEN, _name(letter))]
                )


def _mark(record: Record[Any, Any]) -> bytes | None:
    """The name of the letter that this record marks as redriven; None for a letter."""
    is_mark = record.key is None and record.value is None and [name for name, _ in record.headers] == [REDRIVEN]
    return record.header(REDRIVEN) if is_mark else None


def _name(letter: Letter) -> bytes:
    return f"{letter.record.partition}@{letter.record.offset}".encode()
