"""What runs in Spark's Python workers: operators between two projections, called with Arrow batches.

An Outlet comes before rows are exchanged, and at the end: it writes records to topics, calls the user's functions, and
sends rows on to the ports of hosted steps, with the beats of their sources. A Stage comes after an exchange: it runs
the hosted steps of one shard on their state. Rows for later stages pass through both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from odradek.base.invariants import invariant
from odradek.spark.sink_options import Columns, Guarantee
from odradek.spark.task_producer import Record, TaskProducer
from odradek.spark.task_transaction import TaskTransaction
from odradek.spark.writer import ANY_PARTITION, MicroBatchTask, records, task_of_micro_batch, transaction
from odradek.streams.compile.calling import Calling, Letter
from odradek.streams.compile.gathering import RowFile
from odradek.streams.compile.python_rows import RowByRow
from odradek.streams.compile.topology.projecting import (
    AT,
    DELETED,
    OF,
    RECORD_KEY,
    SHARD,
    SOURCE,
    TIME,
    TO,
    WHOLE,
    lane_column,
    origin_column,
    port_column,
)
from odradek.streams.engine.clock import Beat, Micros, Source, beats
from odradek.streams.engine.order import BEFORE_LANES, after_results_of_time, lane_mark, result_mark
from odradek.streams.engine.shard import Arrival, Placed, Result, run_batch
from odradek.streams.engine.store import ONE_RUN, Run, ShardStore

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.streams.compile.topology.hosting import MapFunction

Batches = Iterator["pa.RecordBatch"]
Writer = TaskProducer | TaskTransaction
EVERY_SOURCE = -1
"""Of a time that a test lets pass: each outlet makes it a beat of all the sources that begin there."""
WALL = -2
"""The origin of ticks, which come though no record does. Each becomes a beat that moves no event time: it has every
shard of every stage look at the clock of the wall."""
STORES_MAX = 32
"""Shards whose state a worker keeps open. Each may have tens of thousands of values in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A lane that ends in a topic."""

    lane: int
    topic: str
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """A lane that ends in a table of files."""

    lane: int
    run_folder: str

    def file(self) -> RowFile:
        return RowFile(self.run_folder, _micro_batch(), f"{self.lane}-{_task()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A lane that ends in a function of the user's."""

    lane: int
    calling: Calling


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A lane that leads to a port; its rows move time if there is a source."""

    lane: int
    port: int
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A lane that leads into a function of rows, which is called at once: it needs no exchange."""

    lane: int
    origin: int
    function: MapFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The columns that an operator gives: their names and Arrow types."""

    schema: Any  # pa.Schema

    def batch(self, columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [
            _cast(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    config: Mapping[str, str]  # of the producer
    writes: tuple[Write, ...]
    calls: tuple[Call, ...]
    gathers: tuple[Gather, ...]
    routes: tuple[Route, ...]
    maps: tuple[Map, ...]
    shape: Shape
    shards: int
    guarantee: Guarantee | None = None  # None: at least once

    def __call__(self, batches: Batches) -> Batches:
        files = {gather.lane: gather.file() for gather in self.gathers}
        if not self.writes and not any(call.calling.dlq for call in self.calls):
            yield from self._handed_on(batches, None, files)
            return
        with self._producer() as producer:
            yield from self._handed_on(batches, producer, files)
            producer.finish()

    def _producer(self) -> Writer:
        task = None if self.guarantee is None else task_of_micro_batch()
        if self.guarantee is None or self.guarantee.sink is None or task is None:
            return TaskProducer(dict(self.config))
        return transaction(dict(self.config), self.guarantee, task, self.guarantee.sink)

    def _handed_on(self, batches: Batches, producer: Writer | None, files: Mapping[int, RowFile]) -> Batches:
        seen: dict[Source, list[tuple[bytes, Micros]]] = {}
        sources = {route.source for route in self.routes if route.source is not None}
        for batch in batches:
            if WALL in batch.column(OF).unique().to_pylist():
                yield from self._beats([Beat(b"", WALL, 0)])
            for _, tick in _heard(batch):
                if tick.source == EVERY_SOURCE:
                    yield from self._beats([Beat(tick.at, source.number, tick.time) for source in sources])
            if producer is not None:
                self._write(batch, producer)
            self._call(batch, producer)
            for lane, file in files.items():
                file.write(_rows(batch, lane)[1])
            if len(self.shape.schema):
                yield from self._passing(batch)
                yield from self._routed(batch, seen)
                yield from self._mapped(batch)
        for source, times in seen.items():
            yield from self._beats(beats(source, times))
        for file in files.values():
            file.finish()

    def _write(self, batch: pa.RecordBatch, producer: Writer) -> None:
        for write in self.writes:
            _, rows = _rows(batch, write.lane)
            if rows.num_rows:
                producer.send(records(rows, write.columns, write.topic), rows.nbytes)

    def _call(self, batch: pa.RecordBatch, producer: Writer | None) -> None:
        for call in self.calls:
            for letter in call.calling.letters(_rows(batch, call.lane)[1]):
                if producer is not None and call.calling.dlq is not None:
                    producer.send([as_record(letter, call.calling.dlq)], len(letter.value or b""))

    def _passing(self, batch: pa.RecordBatch) -> Batches:
        """Rows and beats that are on their way to a later stage."""
        import pyarrow.compute as pc

        on_their_way = pc.or_(pc.is_valid(batch.column(TO)), pc.is_valid(batch.column(SOURCE)))
        rows = batch.filter(on_their_way)
        if rows.num_rows:
            yield self.shape.batch({name: rows.column(name) for name in rows.schema.names}, rows.num_rows)

    def _routed(self, batch: pa.RecordBatch, seen: dict[Source, list[tuple[bytes, Micros]]]) -> Batches:
        import pyarrow as pa

        for route in self.routes:
            at, lane = _rows(batch, route.lane)
            if not lane.num_rows:
                continue
            count = lane.num_rows
            if route.source is not None:
                times = lane.column("time").cast(pa.int64()).to_pylist()
                moves = _marked(at, BEFORE_LANES).to_pylist()
                seen.setdefault(route.source, []).extend(zip(moves, times, strict=True))
            yield self.shape.batch(
                {
                    TO: _same(route.port, count),
                    SHARD: lane.column("shard"),
                    AT: _marked(at, lane_mark(route.lane)),
                    TIME: lane.column("time"),
                    RECORD_KEY: lane.column("key"),
                    DELETED: lane.column("deleted"),
                    port_column(route.port): lane.column("row"),
                },
                count,
            )

    def _mapped(self, batch: pa.RecordBatch) -> Batches:
        import pyarrow as pa

        for one in self.maps:
            at, lane = _rows(batch, one.lane)
            if not lane.num_rows:
                continue
            given = pa.RecordBatch.from_struct_array(lane.column("row"))
            made, sources = _called(one.function, given)
            marks = [result_mark(one.origin, number) for number in _numbers(sources)]
            struct = self.shape.schema.field(origin_column(one.origin)).type
            yield self.shape.batch(
                {
                    OF: _same(one.origin, made.num_rows),
                    SHARD: _same(_task() % self.shards, made.num_rows),
                    AT: _marked(
                        _marked(at, lane_mark(one.lane)).take(pa.array(sources, pa.int32())),
                        pa.array(marks, pa.binary()),
                    ),
                    TIME: _or_now(_cast(made.column("_time"), self.shape.schema.field(TIME).type)),
                    RECORD_KEY: made.column("_key"),
                    origin_column(one.origin): _struct(made, struct),
                },
                made.num_rows,
            )

    def _beats(self, found: Sequence[Beat]) -> Batches:
        import pyarrow as pa

        count = len(found) * self.shards
        if count:
            yield self.shape.batch(
                {
                    SOURCE: pa.array([beat.source for beat in found] * self.shards, pa.int32()),
                    SHARD: pa.array([shard for shard in range(self.shards) for _ in found], pa.int32()),
                    AT: pa.array([beat.at for beat in found] * self.shards, pa.binary()),
                    TIME: pa.array([beat.time for beat in found] * self.shards, self.shape.schema.field(TIME).type),
                },
                count,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The steps of one level, in one shard per task."""

    folder: str  # of the shards' state
    placed: tuple[Placed, ...]
    origins: Mapping[int, int]  # the number of a step -> that of its origin
    idle_after: Mapping[int, Micros | None]
    shape: Shape
    run: Run = ONE_RUN
    several_hosts: bool = False  # the next task of a shard may be on another one: nothing stays open

    def __call__(self, batches: Batches) -> Batches:
        rows: dict[int, list[Arrival]] = {}
        heard: dict[int, list[Beat]] = {}
        ports = [port for one in self.placed for port in one.ports]
        for batch in batches:
            for port in ports:
                for shard, row in _arrivals(batch, port):
                    rows.setdefault(shard, []).append(row)
            for shard, beat in _heard(batch):
                if beat.source != EVERY_SOURCE:
                    heard.setdefault(shard, []).extend([] if beat.source == WALL else [beat])
            yield from self._passing(batch, ports)
        number = _micro_batch()
        for shard in sorted({*rows, *heard}):  # those of this task, be it one or, as Spark likes, several
            path = Path(self.folder) / f"shard-{shard}.db"
            store = ShardStore(path, several_hosts=True) if self.several_hosts else open_store(path)
            mine = rows.get(shard, ()), heard.get(shard, ())
            try:
                results, _ = run_batch(store, number, self.placed, self.idle_after, *mine, self.run)
            finally:
                if self.several_hosts:
                    store.close()
            for step, made in results.items():
                if made:
                    yield self._given(self.origins[step], made)

    def _passing(self, batch: pa.RecordBatch, ports: Sequence[int]) -> Batches:
        """Rows for other ports, results of functions of rows at this level, and time for the stages below."""
        import pyarrow as pa
        import pyarrow.compute as pc

        mine = pc.fill_null(pc.is_in(batch.column(TO), pa.array(ports, pa.int32())), False)
        is_row = pc.or_(pc.is_valid(batch.column(TO)), pc.is_valid(batch.column(OF)))
        rows = batch.filter(pc.and_(pc.invert(mine), is_row))
        if rows.num_rows:
            names = [name for name in rows.schema.names if self.shape.schema.get_field_index(name) >= 0]
            yield self.shape.batch({name: rows.column(name) for name in names}, rows.num_rows)
        heard = batch.filter(pc.is_valid(batch.column(SOURCE)))
        if heard.num_rows:
            columns = {name: heard.column(name) for name in (SOURCE, SHARD, TIME)}
            columns[AT] = pa.array([after_results_of_time(at) for at in heard.column(AT).to_pylist()], pa.binary())
            yield self.shape.batch(columns, heard.num_rows)

    def _given(self, origin: int, made: list[Result]) -> pa.RecordBatch:
        import pyarrow as pa

        made.sort(key=_place)
        struct = self.shape.schema.field(origin_column(origin)).type
        columns = zip(*[one.values for one in made], strict=True) if len(struct) else ()
        arrays = [pa.array(values, field.type) for values, field in zip(columns, struct, strict=True)]
        return self.shape.batch(
            {
                OF: _same(origin, len(made)),
                AT: pa.array([one.at for one in made], pa.binary()),
                TIME: pa.array([one.time for one in made], self.shape.schema.field(TIME).type),
                RECORD_KEY: pa.array([one.record_key for one in made], pa.binary()),
                DELETED: pa.array([one.deleted for one in made], pa.bool_()),
                origin_column(origin): pa.StructArray.from_arrays(arrays, fields=list(struct)),
            },
            len(made),
        )


_stores: OrderedDict[Path, tuple[int, ShardStore]] = OrderedDict()  # and the inode of the file that each has open


def open_store(path: Path) -> ShardStore:
    """Stores outlive their task: a worker runs the next micro-batch of the shard, too, or of another one."""
    inode, store = _stores.pop(path, (None, None))
    if store is not None and (not path.exists() or path.stat().st_ino != inode):
        store.close()  # after a reset, another worker created a new file
        store = None
    store = store or ShardStore(path)
    _stores[path] = path.stat().st_ino, store
    while len(_stores) > STORES_MAX:
        _stores.popitem(last=False)[1][1].close()
    return store


def _task() -> int:
    """The number of this task among those of its stage in Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _micro_batch() -> int:
    """The number of the micro-batch of this task."""
    task = task_of_micro_batch()
    invariant(task is not None, "a stage runs inside a micro-batch of a streaming query")
    return cast("MicroBatchTask", task).batch


def as_record(letter: Letter, topic: str) -> Record:
    """As arguments of `Producer.produce`, by position; the time of the record is now."""
    return topic, letter.value, letter.key, ANY_PARTITION, None, None, 0, letter.headers


def _place(result: Result) -> bytes:
    return result.at


def _rows(batch: pa.RecordBatch, lane: int) -> tuple[Any, pa.RecordBatch]:
    """The rows that take a lane, and their positions."""
    import pyarrow as pa

    column, at = batch.column(lane_column(lane)), batch.column(AT)
    if column.null_count:
        there = column.is_valid()
        column, at = column.filter(there), at.filter(there)
    return at, pa.RecordBatch.from_struct_array(column)


def _arrivals(batch: pa.RecordBatch, port: int) -> list[tuple[int, Arrival]]:
    """The rows of a port, each with its shard."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = batch.filter(pc.fill_null(pc.equal(batch.column(TO), port), False))
    if not rows.num_rows:
        return []
    struct = rows.column(port_column(port))
    columns = [column.to_pylist() for column in struct.flatten()]
    has_whole = bool(columns) and struct.type.field(len(columns) - 1).name == WHOLE
    wholes = columns.pop() if has_whole else [None] * rows.num_rows
    values = list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows
    return [
        (shard, Arrival(at, port, time, key, deleted, row, whole))
        for shard, at, time, key, deleted, row, whole in zip(
            rows.column(SHARD).to_pylist(),
            rows.column(AT).to_pylist(),
            rows.column(TIME).cast(pa.int64()).to_pylist(),
            rows.column(RECORD_KEY).to_pylist(),
            rows.column(DELETED).to_pylist(),
            values,
            wholes,
            strict=True,
        )
    ]


def _heard(batch: pa.RecordBatch) -> list[tuple[int, Beat]]:
    """The beats for each shard."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = batch.filter(pc.is_valid(batch.column(SOURCE)))
    return [
        (shard, Beat(at, source, time))
        for shard, at, source, time in zip(
            rows.column(SHARD).to_pylist(),
            rows.column(AT).to_pylist(),
            rows.column(SOURCE).to_pylist(),
            rows.column(TIME).cast(pa.int64()).to_pylist(),
            strict=True,
        )
    ]


def _marked(at: Any, marks: Any) -> Any:  # noqa: ANN401
    """Positions with a mark at the end of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(at, marks, pa.scalar(b"", pa.binary()))


def _or_now(times: Any) -> Any:  # noqa: ANN401
    """A row of which a function does not say when it happened has the time of its processing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(times, pa.scalar(datetime.now(UTC), times.type))


def _numbers(sources: Sequence[int]) -> Iterator[int]:
    """Counts the results of each row, which stand together."""
    number, before = 0, -1
    for source in sources:
        number, before = number + 1 if source == before else 1, source
        yield number


def _called(function: MapFunction, given: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    import pyarrow as pa

    if isinstance(function, RowByRow):
        return function.outcome(given)
    (made,) = function(iter([given.to_pandas()]))
    last = given.num_rows - 1
    return pa.RecordBatch.from_pandas(made, preserve_index=False), [last] * len(made)


def _struct(made: pa.RecordBatch, struct: pa.StructType) -> Any:  # noqa: ANN401
    import pyarrow as pa

    arrays = [_cast(made.column(field.name), field.type) for field in struct]
    return pa.StructArray.from_arrays(arrays, fields=list(struct))


def _same(number: int, count: int) -> Any:  # noqa: ANN401
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(np.full(count, number, np.int32).data)])


def _cast(array: Any, kind: pa.DataType) -> Any:  # noqa: ANN401
    return array if array.type == kind else array.cast(kind)
