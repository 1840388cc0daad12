"""The status of one query, as the application records it and tells the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QueryState = Literal["starting", "waiting", "working", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    name: str
    state: QueryState
    batch: int | None = None  # the last one that is done
    input_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    batch_ms: int | None = None
    planning_ms: int | None = None
    execution_ms: int | None = None
    watermark: str | None = None  # where Spark's own operators run the query
    event_time: str | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    late_rows: int | None = None
    warning: str | None = None  # why it does not keep up
    error: str | None = None
    at: str | None = None  # when that batch began
