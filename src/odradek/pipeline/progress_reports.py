"""Spark's progress reports of the micro-batches of a query. Spark keeps the last hundred."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.pipeline.keeping_up import MicroBatch, micro_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def batches_after(
    query: StreamingQuery, last: int | None, newest: Mapping[str, Any]
) -> tuple[list[MicroBatch], int | None]:
    """The micro-batches with rows after the one with the number `last`, oldest first, and the number to go on from.

    `newest` is the last report. Usually it is the only one to look at. While a query is idle, Spark reports the number
    of the micro-batch that comes next, without rows.
    """
    batch = micro_batch(newest)
    if last is not None and batch.number <= last:
        return [], last
    done = batch.number if batch.rows else batch.number - 1
    if last is not None and batch.number == last + 1:
        return ([batch] if batch.rows else []), done
    return _found(query, last), done


def _found(query: StreamingQuery, last: int | None) -> list[MicroBatch]:
    # `recentProgress` would fetch and parse all hundred of them.
    reports: Any = query._jsq.recentProgress()  # noqa: SLF001
    found: list[MicroBatch] = []
    for index in range(len(reports) - 1, -1, -1):
        batch = micro_batch(json.loads(reports[index].json()))
        if last is not None and batch.number <= last:
            break
        if batch.rows:
            found.append(batch)
    return found[::-1]
