"""Errors of single records: retried, skipped or made dead letters, as `errors.*` says; else the task fails."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from odradek.connect.common_options import CommonOptions
from odradek.connect.conversion import CannotConvertHeader, CannotConvertKey
from odradek.connect.interface import BadRecord, NeedsUser, RetriableError
from odradek.connect.records import Record, SourcePlace, TopicPlace

T = TypeVar("T")
_log = logging.getLogger("odradek.connect")

FIRST_DELAY_S = 0.3
STACKTRACE_CHARS_MAX = 8_000
# An outage of the other system, not the fault of a record. Such an error fails the task, which restarts later.
OUTAGES = (RetriableError, ConnectionError, TimeoutError)


class RecordFailed(Exception):
    """A record failed, and errors are not tolerated. The cause is the error of the connector or converter."""


class Stage(StrEnum):
    """Kafka Connect's names of the steps of a record."""

    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"


def stage_of(failed: Exception, stage: Stage) -> Stage:
    """All converters run in one step; the error says whether the key or a header failed."""
    if isinstance(failed, CannotConvertHeader):
        return Stage.HEADER_CONVERTER
    return Stage.KEY_CONVERTER if isinstance(failed, CannotConvertKey) else stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A record that failed. The raw parts are as they were read from the topic, for a sink."""

    record: Record | None
    stage: Stage
    error: Exception
    raw: RawRecord | None = None

    @property
    def place(self) -> str | None:
        """Where the record is, to look at it: its topic, partition and offset, or its place in the source."""
        place = self.raw if self.raw is not None else None if self.record is None else self.record.place
        match place:
            case RawRecord() | TopicPlace():
                return f"the record {place.topic}-{place.partition}@{place.offset}"
            case SourcePlace():
                return f"the record before {dict(place.offset)}" + (
                    f" of {dict(place.partition)}" if place.partition else ""
                )
        return None

    @property
    def stacktrace(self) -> str:
        return "".join(traceback.format_exception(self.error))[-STACKTRACE_CHARS_MAX:]


@dataclass(frozen=True, slots=True)
class RawRecord:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None


@dataclass(slots=True)
class Tolerance:
    """Runs an operation on a record. Failures that are tolerated are kept in `failures` until they are reported."""

    options: CommonOptions
    rest: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    failures: list[Failure] = field(default_factory=list)

    @property
    def tolerates(self) -> bool:
        return self.options.errors_tolerance == "all"

    def attempt(self, operation: Callable[[], T]) -> T:
        """Retries RetriableError for `errors.retry.timeout`, with growing delays."""
        timeout_ms = self.options.errors_retry_timeout
        deadline = self.clock() + timeout_ms / 1000
        delay = FIRST_DELAY_S
        while True:
            try:
                return operation()
            except RetriableError:
                delay = min(delay, self.options.errors_retry_delay_max_ms / 1000)
                if timeout_ms != -1 and self.clock() + delay > deadline:
                    raise
                self.rest(delay)
                delay *= 2

    def bad(self, failure: Failure) -> None:
        """Keeps a failed record as a dead letter, or raises its error, with the place of the record."""
        if isinstance(failure.error, (*OUTAGES, NeedsUser)) or (not self.tolerates and failure.place is None):
            raise failure.error
        if not self.tolerates:
            raise RecordFailed(
                f"{failure.place}: {failure.error}; with errors.tolerance=all such records are skipped"
            ) from failure.error
        if self.options.errors_log_enable:
            shown = f": {failure.record!r}" if self.options.errors_log_include_messages else ""
            _log.warning("skipped a record at %s: %s%s", failure.stage, failure.error, shown)
        self.failures.append(failure)

    def taken(self) -> list[Failure]:
        """The failures since the last call."""
        taken, self.failures = self.failures, []
        return taken


def write_or_divide(
    write: Callable[[Sequence[Record]], None], records: Sequence[Record], tolerance: Tolerance
) -> list[Failure]:
    """Writes a batch. If it fails and errors are tolerated, halves it until the records to blame are alone.

    Returns these records. Order is kept: a part is written before the next one is tried. A batch with one bad record
    takes about twice log2(n) writes.
    """
    try:
        tolerance.attempt(lambda: write(records))
    except OUTAGES:
        raise
    except Exception as failed:  # a connector may raise anything
        if not tolerance.tolerates:
            if isinstance(failed, BadRecord):
                tolerance.bad(Failure(record=failed.record, stage=Stage.TASK_PUT, error=failed))
            raise
        if len(records) == 1:
            return [Failure(record=records[0], stage=Stage.TASK_PUT, error=failed)]
        if isinstance(failed, BadRecord) and any(each is failed.record for each in records):
            return _around(write, records, failed, tolerance)
        middle = len(records) // 2
        return write_or_divide(write, records[:middle], tolerance) + write_or_divide(write, records[middle:], tolerance)
    return []


def _around(
    write: Callable[[Sequence[Record]], None], records: Sequence[Record], bad: BadRecord, tolerance: Tolerance
) -> list[Failure]:
    """The connector named the record to blame: write the others, before it and after it."""
    failures: list[Failure] = []
    rest = records
    while True:  # a loop, because every record of a large batch may be bad
        at = next(index for index, record in enumerate(rest) if record is bad.record)
        failures += write_or_divide(write, rest[:at], tolerance) if at else []
        failures.append(Failure(record=bad.record, stage=Stage.TASK_PUT, error=bad))
        rest = rest[at + 1 :]
        if not rest:
            return failures
        try:
            tolerance.attempt(lambda after=rest: write(after))  # type: ignore[misc]
        except BadRecord as next_bad:
            if not any(each is next_bad.record for each in rest):
                return failures + write_or_divide(write, rest, tolerance)
            bad = next_bad
        except OUTAGES:
            raise
        except Exception:  # noqa: BLE001 (a connector may raise anything; `write_or_divide` finds the record)
            return failures + write_or_divide(write, rest, tolerance)
        else:
            return failures
