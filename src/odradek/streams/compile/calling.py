"""The user's function of `foreach`, inside Spark's workers: called with each row, again after a failure, then given up.

A row that is given up becomes a dead letter, is skipped, or ends the query with its record named.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.pipeline.errors import is_ours
from odradek.pipeline.formats.dead_letters import HEADER
from odradek.streams.compile.failures import FAILED_RECORD
from odradek.streams.compile.python_rows import error_of, rows_of
from odradek.streams.graph.nodes import OnError
from odradek.streams.graph.sinks import ForeachRow

if TYPE_CHECKING:
    import pyarrow as pa

LETTERS = "key binary, value binary, headers array<struct<key: string, value: binary>>"
Headers = list[tuple[str, bytes | None]]


class RecordFailed(Exception):
    """A row that the function failed at; its text names the step and the record."""

    @classmethod
    def at(cls, step: str, where: str, problem: Exception) -> RecordFailed:
        error = error_of(problem)
        message = " ".join(error["message"].split())
        return cls(f"{FAILED_RECORD} {step}: {where}: {error['exception']}: {message}{raised_in(problem)}")


def raised_in(problem: BaseException) -> str:
    """The user's function and line that raised, in brackets."""
    theirs = [frame for frame in traceback.extract_tb(problem.__traceback__) if not is_ours(frame.filename)]
    return f" (in {theirs[-1].name}, {theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""


@dataclass(frozen=True, slots=True)
class Letter:
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    step: str
    function: Callable[[Any], None]
    retries: int
    backoff_s: float  # before the first retry; each of the next waits twice as long
    dlq: str | None
    on_error: OnError

    @classmethod
    def of(cls, sink: ForeachRow) -> Calling:
        return cls(
            step=sink.name,
            function=sink.function,
            retries=sink.retries,
            backoff_s=sink.backoff.total_seconds(),
            dlq=sink.dlq,
            on_error=sink.on_error,
        )

    def letters(self, batch: pa.RecordBatch) -> Iterator[Letter]:
        """Calls the function with each row. `batch` has the columns that it sees, and `_record`."""
        for index, row in enumerate(rows_of(batch)):
            if (problem := self._problem(row)) is None:
                continue
            record = batch.column("_record")[index].as_py()
            if self.dlq is not None:
                yield self._letter(record, problem)
            elif self.on_error == "fail":
                raise RecordFailed.at(self.step, _where(record), problem) from problem

    def _problem(self, row: Any) -> Exception | None:  # noqa: ANN401 a Row
        """What the function raised last, or None when it took the row."""
        for attempt in range(self.retries + 1):
            try:
                self.function(row)
            except Exception as raised:  # noqa: BLE001 whatever the user's function does wrong is this row's failure
                problem = raised
            else:
                return None
            if attempt < self.retries:
                time.sleep(self.backoff_s * 2**attempt)
        return problem

    def _letter(self, record: Mapping[str, Any], problem: Exception) -> Letter:
        told: dict[str, Any] = {**error_of(problem), "step": self.step}
        told |= {name: record[name] for name in ("topic", "partition", "offset")}
        headers: Headers = [(one["key"], one["value"]) for one in record["headers"] or ()]
        headers += [(HEADER + name, str(value).encode()) for name, value in told.items() if value is not None]
        return Letter(record["key"], record["value"], headers)


def _where(record: Mapping[str, Any]) -> str:
    if record["topic"] is None:
        return f"row {(record['value'] or b'without a value').decode(errors='replace')}"
    return f"{record['topic']}-{record['partition']} at offset {record['offset']}"


class EachRow:
    """Called with Arrow batches by Spark's own operators; gives the dead letters."""

    def __init__(self, calling: Calling) -> None:
        self._calling = calling

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        for batch in batches:
            letters = list(self._calling.letters(batch))
            headers = [[{"key": key, "value": value} for key, value in letter.headers] for letter in letters]
            columns = {
                "key": pa.array([letter.key for letter in letters], pa.binary()),
                "value": pa.array([letter.value for letter in letters], pa.binary()),
                "headers": pa.array(headers, pa.list_(header)),
            }
            yield pa.RecordBatch.from_pydict(columns)
