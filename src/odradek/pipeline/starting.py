"""A query of Spark from its start to its end: started again when a Python process came up too late, waited for."""

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
IDLE = "Waiting for data to arrive"  # in Spark's words


def started(start: Callable[[], StreamingQuery], signals: Signals | None) -> StreamingQuery:
    """The query, after its first micro-batch; started again if its Python process did not connect in time."""
    for _ in range(START_ATTEMPTS):
        query = start()
        if _came_up(query, signals):
            break
    return query


def _came_up(query: StreamingQuery, signals: Signals | None) -> bool:
    """Waits until the query has done something or has nothing to do, or until nobody wants it any more.

    Queries that start together fight for the cores: the first results come later, and Spark gives a Python process no
    more than ten seconds to come up. False when that was not enough, which is the machine's fault and not the query's.
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
    """For queries that run one micro-batch after the other: Spark never sees those as done.

    The batch after the next began after this was called, so what was there then is in it or before it.
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
