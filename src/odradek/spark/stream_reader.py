"""`spark.readStream.format("odradek")`: the driver's side of a streaming read.

Spark keeps the offsets. The reader returns the ends of the topics (`latestOffset`) and plans the tasks (`partitions`).
An exception from either ends the query, so TopicsView retries while brokers are unreachable.
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
# A first guess of the time span of the records of a micro-batch.
CUT_SPAN_MS = 60_000


class OdradekStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Spark asks for it twice for its first batch, and both results must be the same.
        self._initial: StreamOffset | None = None
        # The checkpoint has no start offset before the first batch. For a start at "latest" that batch is empty, so
        # that the checkpoint keeps the offset.
        self._to_pin = False
        self._available_now = False
        # Ends of the partitions that are read, and of the other aligned topics. Fixed with Trigger.AvailableNow.
        self._latest: tuple[Offsets, Offsets] | None = None
        self._tick: StreamOffset | None = None
        self._last_batch_s = float("-inf")
        self._cut_span_ms = CUT_SPAN_MS

    def __reduce__(self) -> tuple[Any, ...]:
        # Executors need only the options. The connections of the driver stay in the driver.
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
        # Spark has no limit with both minimum and maximum for Python sources; `latestOffset` applies the maximum.
        if self._options.rows_min is not None:
            return ReadMinRows(self._options.rows_min)
        return ReadAllAvailable() if self._options.rows_max is None else ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        begun = StreamOffset.of_json(start)
        if self._progress:  # Spark asks for the next batch when the batch that ends at `start` is done
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
        # When Spark replays the first batch, it asks for the initial offsets again. They may be past `end`, which was
        # written earlier. That is not a loss.
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
        """Does nothing: Spark calls this one batch late, and `latestOffset` has committed earlier."""

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
        # The time is fixed at the start and sent with the last records. With a running clock the query would never end.
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
        """`begun`, and the earliest offsets of partitions that are new in `latest`."""
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
                f"records may be lost: {told}. To continue without them, set the option failOnDataLoss to false; to "
                "start over, use a new checkpoint"
            )
        log.warning("records may be lost: %s; the query continues, because failOnDataLoss is false", told)


class RefusedStreamReader(OdradekStreamReader):
    """Raises the error of refused options when it is used: Spark does not show exceptions of `streamReader` itself."""

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
