"""The transactional producers of this process, and the way to those of the other processes of this host."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

from odradek.spark import ownership, writer_door
from odradek.spark.batch_markers import MarkerTopic
from odradek.spark.task_producer import Record
from odradek.spark.transactional_writer import Attempt, TransactionalWriter, WriterLost
from odradek.spark.writer_door import Door, Request

T = TypeVar("T")

# Each has threads and connections of its own.
WRITERS_MAX = 32


class Writers:
    """Of one process. `write` writes a whole task; `own` gives a writer that takes the records piece by piece."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, TransactionalWriter]] = OrderedDict()  # with the token of its claim
        self._changing = threading.Lock()
        self._door: Door | None = None
        self._process = os.getpid()

    def write(
        self, config: Mapping[str, str], markers: MarkerTopic, attempt: Attempt, records: Sequence[Record]
    ) -> None:
        """Writes the records unless an earlier attempt has. A lost producer is replaced: with `local[*]` Spark does not
        retry a task.
        """
        try:
            self._write(config, markers, attempt, records)
        except WriterLost:
            retried(lambda: self._write_with(self.own(config, markers, attempt), attempt, records))

    def own(self, config: Mapping[str, str], markers: MarkerTopic, attempt: Attempt) -> TransactionalWriter:
        """Always a new one: it fences an older attempt, which may be writing with the kept producer."""
        return self._initialized(config, markers, attempt, key_of(config, attempt))

    def drop(self, writer: TransactionalWriter) -> None:
        with self._changing:
            for key in [key for key, (_, kept) in self._kept.items() if kept is writer]:
                del self._kept[key]

    def forget(self) -> None:
        """As if this process had died: its producers take no records any more."""
        with self._changing:
            self._kept.clear()
            if self._door is not None:
                self._door.close()
                self._door = None

    @property
    def count(self) -> int:
        return len(self._kept)

    def _write(
        self, config: Mapping[str, str], markers: MarkerTopic, attempt: Attempt, records: Sequence[Record]
    ) -> None:
        key = key_of(config, attempt)
        claim = ownership.claim_on(key)
        writer = self._mine(key, claim)
        if writer is None and claim is not None:
            writer_door.ask(claim, key, attempt, records)
            return
        self._write_with(writer or self._initialized(config, markers, attempt, key), attempt, records)

    def _write_with(self, writer: TransactionalWriter, attempt: Attempt, records: Sequence[Record]) -> None:
        try:
            writer.write(attempt, records)
        except BaseException:
            self.drop(writer)
            raise

    def _mine(self, key: str, claim: ownership.Claim | None) -> TransactionalWriter | None:
        with self._changing:
            token, writer = self._kept.get(key, (None, None))
            if writer is not None and (claim is None or claim.token != token):
                del self._kept[key]  # another process has the transactional id now
                return None
            if writer is not None:
                self._kept.move_to_end(key)
            return writer

    def _initialized(
        self, config: Mapping[str, str], markers: MarkerTopic, attempt: Attempt, key: str
    ) -> TransactionalWriter:
        writer = TransactionalWriter(config, markers, attempt.transactional_id, attempt.batch)
        with self._changing:
            claim = ownership.claim(key, self._opened().path)
            self._kept[key] = claim.token, writer
            self._kept.move_to_end(key)
            while len(self._kept) > WRITERS_MAX:
                self._kept.popitem(last=False)
        return writer

    def _opened(self) -> Door:
        is_forked = self._process != os.getpid()  # threads and sockets do not survive a fork
        if self._door is not None and not is_forked and not self._door.is_open:
            self._door.close()
            self._door = None
        if self._door is None or is_forked:
            self._door, self._process = Door(self._serve), os.getpid()
        return self._door

    def _serve(self, request: Request) -> None:
        with self._changing:
            token, writer = self._kept.get(request.key, (None, None))
        if writer is None or token != request.token:
            raise WriterLost("this process does not have the transactional id any more")
        self._write_with(writer, request.attempt, request.records)


WRITERS = Writers()


def retried(write: Callable[[], T]) -> T:
    """With a producer that may be lost, too: by an election, or by another attempt that ends."""
    try:
        return write()
    except WriterLost:
        return write()


def key_of(config: Mapping[str, str], attempt: Attempt) -> str:
    """A producer with another config is another one."""
    digest = sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    return f"{attempt.transactional_id} {digest}"
