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
from dataclasses import replace
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
from odradek.spark.alignment import Cut, at_time, next_cut
from odradek.spark.errors import DataLoss
from odradek.spark.group_progress import GroupProgress
from odradek.spark.offsets import Edge, OffsetJson, Offsets, to_json
from odradek.spark.options import AtTimestamp, ReadOptions
from odradek.spark.session import APPLICATION
from odradek.spark.stream_offset import StreamOffset
from odradek.spark.ticks import tick_between, ticked
from odradek.spark.topics_view import TopicsView

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

FLUSH_S = 5.0
# A first guess of how much time the records of a micro-batch cover.
CUT_SPAN_MS = 60_000


class OdradekStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Asked for twice by Spark for its first batch, and it must not move in between.
        self._initial: StreamOffset | None = None
        # A start at "latest" is written nowhere before the first batch: that batch is made empty, to pin it.
        self._to_pin = False
        self._available_now = False
        # Ends of what is read, and of the other aligned topics. Those of Trigger.AvailableNow do not move.
        self._latest: tuple[Offsets, Offsets] | None = None
        self._tick: StreamOffset | None = None
        self._last_batch_s = float("-inf")
        self._cut_span_ms = CUT_SPAN_MS

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
            self._initial = self._begin()
            self._to_pin = self._options.starts_at_latest
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit with two sides for Python; `latestOffset` adds the other one.
        if self._options.rows_min is not None:
            return ReadMinRows(self._options.rows_min)
        return ReadAllAvailable() if self._options.rows_max is None else ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        begun = StreamOffset.of_json(start)
        if self._progress:  # Spark asks for the next batch when the one before `start` is done
            self._progress.commit(begun.offsets)
        if self._to_pin and begun == self._initial:
            self._to_pin = False
            return start
        if self._latest is None or not self._available_now:
            self._latest = self._view.latest(begun.offsets)
        latest, others = self._latest
        self._report(planning.losses(begun.offsets, latest))
        if self._available_now and self._progress and begun.offsets == latest:
            self._progress.flush(FLUSH_S)
        return self._ticked(begun, self._admitted(begun, latest, others, limit), latest).to_json()

    def reportLatestOffset(self) -> OffsetJson | None:
        if self._latest is None:
            return None if self._initial is None else to_json(self._initial.offsets)
        return to_json(self._latest[0])

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        begun, ended = StreamOffset.of_json(start), StreamOffset.of_json(end)
        # When the first batch is replayed, Spark asks for the initial offsets again, and the topics may have moved on
        # from where they were when `end` was written: that is no loss.
        if self._initial is None or begun.offsets != self._initial.offsets:
            self._report(planning.losses(begun.offsets, ended.offsets))
        whole = planning.ranges(begun.offsets, ended.offsets)
        parts = planning.tasks(whole, at_least=self._options.tasks_min, records_max=self._options.task_records_max)
        tasks = planning.packed(parts, self._options.pack_records_max)
        tick_ms = tick_between(begun, ended)
        if tick_ms is not None and self._options.include_position:
            topic = min((place.topic for place in ended.offsets), default="")
            tasks = planning.with_tick(tasks, planning.Tick(topic=topic, time_ms=tick_ms))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from odradek.spark.range_reading import read_task

        return read_task(self._options, partition.value)

    def commit(self, end: OffsetJson) -> None:
        """Nothing: Spark says this one batch late, `latestOffset` knows it earlier."""

    def _begin(self) -> StreamOffset:
        offsets = self._view.start()
        match self._options.start:
            case Edge() as edge if self._options.align_topics:
                return StreamOffset(offsets=offsets, others=self._view.others(edge))
            case AtTimestamp(time_ms) if self._options.align_topics:
                return StreamOffset(offsets=offsets, cut_ms=max(0, time_ms))
            case _:
                return StreamOffset(offsets=offsets)

    def _admitted(self, begun: StreamOffset, latest: Offsets, others: Offsets, limit: ReadLimit) -> StreamOffset:
        everything = StreamOffset(offsets=latest, others=others if self._options.align_topics else None)
        if isinstance(limit, ReadAllAvailable):
            return everything
        begins = self._with_new(begun.offsets, latest)
        latest = {place: offset for place, offset in latest.items() if place in begins}
        if isinstance(limit, ReadMinRows) and self._is_to_wait(
            planning.waiting_records(begins, latest), limit.min_rows
        ):
            return begun
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_max
        if rows_max is None:
            return everything
        cut = self._cut(begun, begins, latest | others, rows_max) if self._options.align_topics else None
        if cut:
            ends = {place: max(begins[place], cut.offsets[place]) for place in latest}
            return StreamOffset(offsets=ends, cut_ms=cut.time_ms)
        return replace(everything, offsets=planning.admitted(begins, latest, rows_max))

    def _ticked(self, begun: StreamOffset, end: StreamOffset, latest: Offsets) -> StreamOffset:
        if not self._available_now:
            return ticked(self._options, begun, end)
        # The time of the beginning, told with the last records: a query whose clock goes on would never end.
        if self._tick is None:
            self._tick = ticked(self._options, begun, begun)
        told = self._tick if end.offsets == latest and end.cut_ms is None else begun
        return replace(end, clock_ms=told.clock_ms, time_ms=told.time_ms)

    def _cut(self, begun: StreamOffset, begins: Offsets, latest: Offsets, rows_max: int) -> Cut | None:
        def offsets_at(time_ms: int) -> Offsets:
            return self._view.at_time(latest, time_ms)

        if begun.cut_ms is not None:
            begins = at_time(begun.cut_ms, latest, offsets_at)
            guess_ms = begun.cut_ms + self._cut_span_ms
        else:
            begins = self._with_new((begun.others or {}) | begins, latest)
            guess_ms = int(time.time() * 1000)
        cut = next_cut(begins, latest, rows_max, after_ms=begun.cut_ms, guess_ms=guess_ms, offsets_at=offsets_at)
        if cut and begun.cut_ms is not None:
            self._cut_span_ms = cut.time_ms - begun.cut_ms
        return cut

    def _with_new(self, begun: Offsets, latest: Offsets) -> Offsets:
        """And where partitions begin that are not known yet."""
        new = latest.keys() - begun.keys()
        return {**(self._view.earliest(new) if new else {}), **begun}

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
