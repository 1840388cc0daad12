"""The sink: writes the rows of batches and streaming queries to topics.

A streaming query writes each task of a micro-batch in one transaction (`task_transaction.py`): exactly once for readers
with read_committed. Without transactions (a batch, `delivery.guarantee=at-least-once`, a cluster that has none),
`write` returns when the brokers have acknowledged every record of the task, and a retried task writes its records
again.

Spark refuses two things to Python sinks that it allows its own Kafka sink: output mode Update (write inside
foreachBatch, as streams do), and a batch without `mode("append")`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from odradek.spark.batch_markers import MarkerTopic
from odradek.spark.errors import RefusedOption
from odradek.spark.sink_options import Columns, Guarantee, check_columns, sink_options
from odradek.spark.task_producer import Record, TaskProducer
from odradek.spark.task_transaction import TaskTransaction
from odradek.spark.transactional_writer import Attempt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ANY_PARTITION = -1


class BadRow(ValueError):
    """A row that cannot be a record."""


@dataclass
class Written(WriterCommitMessage):
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """What a task needs to write its rows. Created on the driver and sent to the workers."""

    topic: str | None
    columns: Columns
    config: dict[str, str]
    guarantee: Guarantee | None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        written = 0
        with self._producer() as producer:
            for batch in batches:
                producer.send(records(batch, self.columns, self.topic), batch.nbytes)
                written += batch.num_rows
            producer.finish()
        return Written(written)

    def _producer(self) -> TaskProducer | TaskTransaction:
        task = None if self.guarantee is None else task_of_micro_batch()
        if self.guarantee is None or task is None:
            return TaskProducer(self.config)
        return transaction(self.config, self.guarantee, task, f"odradek-sink.{task.query_id}.{self.topic or ''}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchTask:
    number: int  # among the tasks of its stage
    batch: int
    query_id: str


def transaction(config: Mapping[str, str], guarantee: Guarantee, task: MicroBatchTask, sink: str) -> TaskTransaction:
    """`sink`: its name if it has none of its own."""
    attempt = Attempt(
        sink=guarantee.sink or sink,
        task=task.number,
        batch=task.batch,
        query_id=task.query_id,
        plan=guarantee.plan,
        to_begin_again=guarantee.to_begin_again,
    )
    markers = MarkerTopic(guarantee.markers)
    return TaskTransaction(config, markers, attempt, falls_back=not guarantee.is_required)


def task_of_micro_batch() -> MicroBatchTask | None:
    """The task that runs in this worker. None outside a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or batch is None:
        return None
    return MicroBatchTask(
        number=context.partitionId(),
        batch=int(batch),
        query_id=str(context.getLocalProperty("sql.streaming.queryId")),
    )


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write(iterator)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool = False) -> BatchWriter:
    if overwrite:
        raise RefusedOption('a topic cannot be overwritten: write with mode("append")')
    sink = _sink(options, schema)
    # A batch inside foreachBatch is part of a micro-batch; the sink distinguishes several writes to a topic.
    is_part_of_query = any(name.lower() == "delivery.sink" for name in options)
    return BatchWriter(sink if is_part_of_query else replace(sink, guarantee=None))


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """In output mode Complete each micro-batch appends the whole result: the newest record of a key is valid."""
    sink = _sink(options, schema)
    if sink.guarantee is None:
        return StreamWriter(sink)
    place = next((value for name, value in options.items() if name.lower() == "checkpointlocation"), None)
    if place is None:
        return StreamWriter(sink)
    if (checkpoint := local(place)) is None:
        _tell_at_least_once(place, sink.guarantee)
        return StreamWriter(replace(sink, guarantee=None))
    return StreamWriter(replace(sink, guarantee=replace(sink.guarantee, plan=newest_plan(checkpoint))))


def _tell_at_least_once(place: str, guarantee: Guarantee) -> None:
    """At least once: a record that is there twice is better than one that is missing."""
    why = (
        f"only Spark can read the checkpoint in {place}, so one that is older than the results would not be noticed, "
        "and records would be missing"
    )
    if guarantee.is_required:
        raise RefusedOption(f"delivery.guarantee: exactly-once is not possible: {why}; use a local checkpointLocation")
    if place not in _TOLD:
        _TOLD.add(place)
        sys.stderr.write(f"the sink writes at least once, not exactly once: {why}\n")


_TOLD: set[str] = set()


def local(place: str) -> Path | None:
    """The directory of a checkpoint; None if only Spark can read it."""
    path = re.sub(r"^file:(//)?(?=/)", "", place)
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) else Path(path)


def newest_plan(checkpoint: Path) -> str | None:
    """A digest of what Spark has planned for the next micro-batch."""
    plans = [path for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()]
    newest = max(plans, key=lambda path: int(path.name), default=None)
    return None if newest is None else sha256(newest.read_bytes()).hexdigest()[:16]


def _sink(options: Mapping[str, str], schema: StructType) -> Sink:
    given = sink_options(options)
    columns = check_columns(schema, given.topic)
    return Sink(topic=given.topic, columns=columns, config=given.config, guarantee=given.guarantee)


def records(batch: pa.RecordBatch, columns: Columns, topic: str | None) -> Iterator[Record]:
    """The rows as arguments of `Producer.produce`, which takes them by position."""
    topics = _topics(batch.column("topic")) if topic is None else repeat(topic)
    values = _bytes(batch.column("value"))
    keys = _bytes(batch.column("key")) if columns.key else repeat(None)
    if not (columns.partition or columns.headers):
        return zip(topics, values, keys, strict=False)
    partitions = _partitions(batch.column("partition")) if columns.partition else repeat(ANY_PARTITION)
    if not columns.headers:
        return zip(topics, values, keys, partitions, strict=False)
    # before the headers: two unused callbacks, and the timestamp (0 means now)
    return zip(
        topics, values, keys, partitions, repeat(None), repeat(None), repeat(0), _headers(batch.column("headers"))
    )


def _bytes(column: pa.Array[Any]) -> list[bytes | None]:
    import pyarrow as pa

    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _topics(column: pa.Array[Any]) -> list[Any]:
    if column.null_count:
        raise BadRow("a row has no topic: its column topic is null; fill it, or set the option topic")
    topics: list[Any] = column.to_pylist()
    return topics


def _partitions(column: pa.Array[Any]) -> list[int]:
    chosen: list[Any] = column.fill_null(ANY_PARTITION).to_pylist() if column.null_count else column.to_pylist()
    if column.null_count < sum(partition < 0 for partition in chosen):
        raise BadRow(f"a row has the partition {min(chosen)}; use 0 or more, or null to choose the partition by key")
    return chosen


def _headers(column: Any) -> Iterator[list[tuple[str, bytes | None]] | None]:  # noqa: ANN401 (a list array)
    """Built for all rows at once and then split by row: a dictionary for each header would cost three times more."""
    import pyarrow.compute as pc

    flat = column.flatten()
    keys = flat.field("key")
    if flat.null_count or keys.null_count:
        raise BadRow("a row has a header without a key")
    headers = list(zip(keys.to_pylist(), flat.field("value").to_pylist(), strict=True))
    counts = [count or 0 for count in pc.list_value_length(column).to_pylist()]
    return (headers[end - count : end] or None for count, end in zip(counts, accumulate(counts), strict=True))
