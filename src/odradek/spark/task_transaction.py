"""Writes the records of one task of a micro-batch in one transaction, together with a marker of the micro-batch.

Exactly once for consumers with `isolation.level=read_committed`. Spark runs a micro-batch again after a failure, with
the same rows in the same tasks. A task whose marker is already there writes nothing. All attempts of one task have the
same transactional id, so the broker fences the older one.

The records of a task are held until it ends, and then written at once: an open transaction holds back the readers of
its topics. A task with more records than that is written while it runs.

Markers are records of a compacted topic and not committed offsets: offsets expire while a query is stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from odradek.base.limits import MIB
from odradek.client.transactions_offered import NoTransactions
from odradek.spark.batch_markers import MarkerTopic
from odradek.spark.clients import connection_of
from odradek.spark.task_producer import Record, TaskProducer
from odradek.spark.transactional_writer import Attempt, TransactionalWriter
from odradek.spark.writers import WRITERS, Writers, retried

HELD_BYTES_MAX = 16 * MIB
HELD_RECORDS_MAX = 100_000
# How long a process writes without transactions before it asks again.
REFUSED_FOR_S = 300.0
REFUSED_MAX = 1000


class TaskTransaction:
    """The transaction of one task. A task without records needs none.

    with TaskTransaction(config, markers, attempt) as transaction:
        transaction.send(records, size)
        transaction.finish()

    `falls_back`: without transactions in the cluster, the task is written without one.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        markers: MarkerTopic,
        attempt: Attempt,
        *,
        falls_back: bool = False,
        writers: Writers = WRITERS,
    ) -> None:
        self._config, self._markers, self._attempt, self._falls_back = config, markers, attempt, falls_back
        self._writers = writers
        self._held: list[Record] = []
        self._held_bytes = 0
        self._writing: _Writing | TaskProducer | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def send(self, records: Iterable[Record], size: int = 0) -> None:
        """`size`: about how many bytes they have."""
        self._held.extend(records)
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES_MAX or len(self._held) > HELD_RECORDS_MAX:
            if self._writing is None:
                self._writing = self._begun()
            self._writing.send(self._held)
            self._held, self._held_bytes = [], 0

    def finish(self) -> None:
        """Returns when the transaction is committed."""
        if self._writing is not None:
            self._writing.send(self._held)
            self._finish_writing(self._writing)
        elif self._held:
            self._write_at_once()

    def _finish_writing(self, writing: _Writing | TaskProducer) -> None:
        try:
            writing.finish()
        except NoTransactions as why:
            self._without(why)  # the next attempt: the records of this one are gone
            raise

    def _write_at_once(self) -> None:
        try:
            self._raise_if_refused()
            self._writers.write(self._config, self._markers, self._attempt, self._held)
        except NoTransactions as why:
            producer = self._without(why)
            producer.send(self._held)
            producer.finish()

    def _begun(self) -> _Writing | TaskProducer:
        try:
            self._raise_if_refused()
            return retried(self._own)
        except NoTransactions as why:
            return self._without(why)

    def _raise_if_refused(self) -> None:
        """Asking costs ten seconds in each task."""
        until, why = _REFUSED.get(self._verdict, (0.0, ""))
        if self._falls_back and time.monotonic() < until:
            raise NoTransactions(why)

    @property
    def _verdict(self) -> str:
        return f"{self._attempt.sink} {self._markers.name} {sorted(connection_of(self._config).items())!r}"

    def _own(self) -> _Writing:
        writer = self._writers.own(self._config, self._markers, self._attempt)
        return self._open.enter_context(_Writing(self._writers, writer, self._attempt))

    def _without(self, why: NoTransactions) -> TaskProducer:
        if not self._falls_back:
            raise why
        if time.monotonic() >= _REFUSED.get(self._verdict, (0.0, ""))[0]:
            if len(_REFUSED) >= REFUSED_MAX:
                _REFUSED.clear()
            _REFUSED[self._verdict] = time.monotonic() + REFUSED_FOR_S, str(why)
        if str(why) not in _TOLD:
            _TOLD.add(str(why))
            sys.stderr.write(f"{self._attempt.sink} writes at least once, not exactly once: {why}\n")
        return self._open.enter_context(TaskProducer(self._config))


class _Writing:
    """A transaction that is open while the task runs."""

    def __init__(self, writers: Writers, writer: TransactionalWriter, attempt: Attempt) -> None:
        self._writers = writers
        self._writer, self._attempt = writer, attempt
        self._begun = writer.begun(attempt)
        self._is_to_be_written = self._is_finished = False

    def __enter__(self) -> Self:
        try:
            self._is_to_be_written = self._begun.__enter__()
        except BaseException:
            self._writers.drop(self._writer)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_finished:
            self._writers.drop(self._writer)
        self._begun.__exit__(kind, error, trace)

    def send(self, records: list[Record]) -> None:
        if self._is_to_be_written:
            self._writer.send(records)

    def finish(self) -> None:
        if self._is_to_be_written:
            self._writer.commit(self._attempt)
        self._is_finished = True


_TOLD: set[str] = set()
_REFUSED: dict[str, tuple[float, str]] = {}
