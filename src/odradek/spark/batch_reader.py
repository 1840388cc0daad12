"""`spark.read.format("odradek")`: the records of topics between two positions.

Spark plans a DataFrame once, however often it runs. So each task looks up "earliest" and "latest" again, as in Spark's
Kafka connector: a second `count()` includes the records that arrived in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.spark import planning
from odradek.spark.errors import RefusedOption
from odradek.spark.offsets import Edge, TopicPartition
from odradek.spark.options import Exactly, Position, ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class OdradekBatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        from odradek.spark.topics_view import TopicsView

        view = TopicsView(self._options)
        start, end = view.start(), view.end()
        # A topic that was created or deleted between the two requests is not part of this batch.
        start, end = ({place: side[place] for place in start.keys() & end.keys()} for side in (start, end))
        latest = view.latest({})[0] if isinstance(self._options.end, Exactly) else end
        for place in sorted(end):
            if end[place] > latest.get(place, end[place]):
                raise RefusedOption(
                    f"endingOffsets: asks for {place} up to offset {end[place]}, but it ends at {latest[place]}"
                )
            if start[place] > end[place]:
                raise RefusedOption(f"{place}: the start is at offset {start[place]}, past the end at {end[place]}")
        whole = [self._range(place, start[place], end[place]) for place in sorted(end)]
        whole = [each for each in whole if each.size or each.to_latest]
        parts = planning.tasks(whole, at_least=self._options.tasks_min, records_max=self._options.task_records_max)
        return [InputPartition(task) for task in planning.packed(parts, self._options.pack_records_max)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from odradek.spark.range_reading import read_task

        # When there is nothing to read, Spark creates one partition without a value.
        return iter(()) if partition.value is None else read_task(self._options, partition.value)

    def _range(self, place: TopicPartition, start: int, end: int) -> planning.OffsetRange:
        return planning.OffsetRange(
            topic=place.topic,
            partition=place.partition,
            start=start,
            end=end,
            from_earliest=_asked_for(self._options.start, place) == Edge.EARLIEST,
            to_latest=_asked_for(self._options.end, place) == Edge.LATEST,
        )


def _asked_for(position: Position, place: TopicPartition) -> Position | int:
    return position.offsets[place] if isinstance(position, Exactly) else position
