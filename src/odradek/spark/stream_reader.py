"""`spark.readStream.format("odradek")`: the driver's side of a streaming read.

Spark keeps the offsets; this says how far the topics go (`latestOffset`) and who reads what (`partitions`). An
exception out of either ends the query, so brokers that are away for a moment are waited for in TopicsView.
"""

# ruff: noqa: N802 (the names are those that Spark calls)

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from odradek.spark import clients, planning
from odradek.spark.errors import DataLoss
from odradek.spark.group_progress import GroupProgress
from odradek.spark.offsets import OffsetJson, Offsets, from_json, to_json
from odradek.spark.options import ReadOptions
from odradek.spark.session import APPLICATION
from odradek.spark.topics_view import TopicsView

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

FLUSH_S = 5.0


class OdradekStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Asked for twice by Spark for its first batch, and it must not move in between.
        self._initial: Offsets | None = None
        # A start at "latest" is written nowhere before the first batch: that batch is made empty, to pin it.
        self._to_pin = False
        self._available_now = False
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._last_batch_s = float("-inf")

    def __reduce__(self) -> tuple[Any, ...]:
        # Executors need the options alone; the connections of the driver stay in the driver.
        return type(self), (self._options,)

    @cached_property
    def _view(self) -> TopicsView:
        return TopicsView(self._options)

    @cached_property
    def _progress(self) -> GroupProgress | None:
        group = self._options.group_id or os.environ.get(APPLICATION)
        return GroupProgress(clients.connection(self._options), group) if group else None

    def initialOffset(self) -> OffsetJson:
        if self._initial is None:
            self._initial = self._view.start()
            self._to_pin = self._options.starts_at_latest
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit with two sides for Python; `latestOffset` adds the other one.
        if self._options.rows_min is not None:
            return ReadMinRows(self._options.rows_min)
        return ReadAllAvailable() if self._options.rows_max is None else ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        begun = from_json(start)
        if self._progress:  # Spark asks for the next batch when the one before `start` is done
            self._progress.commit(begun)
        if self._to_pin and begun == self._initial:
            self._to_pin = False
            self._latest = begun
            return start
        self._latest = self._view.latest(begun) if self._target is None else self._target
        self._report(planning.losses(begun, self._latest))
        if self._available_now:
            self._target = self._latest
            if self._progress and begun == self._target:
                self._progress.flush(FLUSH_S)
        return to_json(self._admitted(begun, self._latest, limit))

    def reportLatestOffset(self) -> OffsetJson | None:
        return None if self._latest is None else to_json(self._latest)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        begun, ended = from_json(start), from_json(end)
        # When the first batch is replayed, Spark asks for the initial offsets again, and the topics may have moved on
        # from where they were when `end` was written: that is no loss.
        if begun != self._initial:
            self._report(planning.losses(begun, ended))
        whole = planning.ranges(begun, ended)
        parts = planning.tasks(whole, at_least=self._options.tasks_min, records_max=self._options.task_records_max)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from odradek.spark.range_reading import read_range

        return read_range(self._options, partition.value)

    def commit(self, end: OffsetJson) -> None:
        """Nothing: Spark says this one batch late, `latestOffset` knows it earlier."""

    def _admitted(self, begun: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        new = latest.keys() - begun.keys()
        begins = {**(self._view.earliest(new) if new else {}), **begun}
        latest = {place: offset for place, offset in latest.items() if place in begins}
        if isinstance(limit, ReadMinRows) and self._is_to_wait(
            planning.waiting_records(begins, latest), limit.min_rows
        ):
            return begun
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_max
        return latest if rows_max is None else planning.admitted(begins, latest, rows_max)

    def _is_to_wait(self, waiting: int, rows_min: int) -> bool:
        now_s = time.monotonic()
        late = now_s - self._last_batch_s >= self._options.trigger_delay_s_max
        if waiting < rows_min and not late and not self._available_now:
            return True
        self._last_batch_s = now_s
        return False

    def _report(self, losses: list[str]) -> None:
        if not losses:
            return
        told = "; ".join(losses)
        if self._options.fail_on_data_loss:
            raise DataLoss(
                f"records may be lost: {told}. To go on with what is there, set the option failOnDataLoss to false; to "
                "start over, use a new checkpoint"
            )
        log.warning("records may be lost: %s; going on, as failOnDataLoss is false", told)


class RefusedStreamReader(OdradekStreamReader):
    """Says why there is no reader as soon as it is used: an exception of `streamReader` itself Spark does not show."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._problem,)

    def initialOffset(self) -> OffsetJson:
        raise self._problem

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: ARG002
        raise self._problem

    def getDefaultReadLimit(self) -> ReadLimit:
        raise self._problem

    def prepareForTriggerAvailableNow(self) -> None:
        raise self._problem

    def stop(self) -> None:
        pass
