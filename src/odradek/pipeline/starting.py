"""Starts a Spark query, retries if its Python process starts too slowly, and waits for its batches and its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.pipeline.signals import Signals

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

START_ATTEMPTS = 3
FIRST_BATCH_S = 30.0
POLL_S = 0.02
IDLE = "Waiting for data to arrive"  # Spark's status message


def started(start: Callable[[], StreamingQuery], signals: Signals | None) -> StreamingQuery:
    """The query after its first micro-batch. Restarted if its Python process did not connect in time."""
    for _ in range(START_ATTEMPTS):
        query = start()
        if _came_up(query, signals):
            break
    return query


def _came_up(query: StreamingQuery, signals: Signals | None) -> bool:
    """Waits until the query has run a micro-batch, is idle, or a signal requests a stop.

    Queries that start together compete for the cores, and Spark gives a Python process only ten seconds to start.
    False when it did not start in time: a slow machine is the cause, not the query.
    """
    deadline = time.monotonic() + FIRST_BATCH_S
    while query.isActive and time.monotonic() < deadline:
        if query.lastProgress is not None or query.status["message"] == IDLE:
            return True
        if signals is not None and signals.stop.is_set():
            return True
        time.sleep(POLL_S)
    failure = query.exception()
    return failure is None or "Python worker failed to connect back" not in str(failure)


def await_batch_without_rows(query: StreamingQuery, deadline: float) -> None:
    """Waits until all records that exist now are processed, for queries that run one micro-batch after the other.

    Spark never reports such queries as done. The batch after the next one begins after this call, so it or an earlier
    batch has these records.
    """
    last = query.lastProgress
    began = last["batchId"] + 2 if last else 1
    while query.isActive and time.monotonic() < deadline:
        last = query.lastProgress
        if last and last["batchId"] >= began and not last["numInputRows"]:
            return
        time.sleep(POLL_S)


def await_end(query: StreamingQuery, timeout_s: float) -> None:
    """Returns early when the query ends, also when it fails: `exception()` says why."""
    with contextlib.suppress(Exception):
        query.awaitTermination(timeout_s)  # type: ignore[arg-type]  # Spark takes fractions of a second too
