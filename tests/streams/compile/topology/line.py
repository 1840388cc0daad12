"""Outlets and stages one after the other, as Spark runs them, without Spark: exchanges give rows in any order."""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from odradek.streams.compile.python_rows import ERROR, RowByRow
from odradek.streams.compile.topology import operators
from odradek.streams.compile.topology.operators import Map, Outlet, Route, Shape, Stage
from odradek.streams.compile.topology.projecting import (
    AT,
    DELETED,
    OF,
    RECORD_KEY,
    SHARD,
    TIME,
    WIRE,
    lane_column,
    origin_column,
    port_column,
)
from odradek.streams.engine.clock import Source
from odradek.streams.engine.order import record_position
from odradek.streams.engine.shard import Placed, Step

SHARDS = 3
ROW = pa.struct([("key", pa.string()), ("what", pa.string())])
TIMESTAMP = pa.timestamp("us", "UTC")
MAPPED = pa.struct([*ROW, ("_key", pa.binary()), ("_time", TIMESTAMP), ("_record", pa.string())])
LANE = [("shard", pa.int32()), ("key", pa.binary()), ("time", TIMESTAMP), ("deleted", pa.bool_())]

Row = dict[str, Any]
Batch = list[Row]
"""Rows of the wire as dictionaries: columns that are missing are null."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """`key`: of the row at its target, by its (key, what); None: the row does not take the lane."""

    number: int
    origin: int
    port: int | None = None  # of a step
    made: int | None = None  # the origin that a function of rows makes
    key: Callable[[str, str], str | None] = lambda key, _what: key
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Level:
    """The lanes that begin here, what flat_map does in them, and the steps after the exchange, by origin."""

    lanes: Sequence[Lane]
    flat: Callable[[Any], Any] | None = None
    steps: Callable[[], dict[int, Placed]] | None = None


def flat_map(function: Callable[[Any], Any]) -> RowByRow:
    kinds = {"key": StringType(), "what": StringType(), "_key": BinaryType(), "_time": TimestampType()}
    schema = StructType([StructField(name, kind) for name, kind in (kinds | {"_record": StringType()}).items()])
    return RowByRow(function, ["key", "what"], schema.add("_error", ERROR), "UTC", flat=True)


def record(origin: int, n: int, time: int, key: str, what: str) -> Row:
    """The n-th record, stored at millisecond n; `time` in microseconds."""
    return {
        OF: origin,
        AT: record_position(n, origin, 0, n),
        TIME: time,
        RECORD_KEY: key.encode(),
        origin_column(origin): {"key": key, "what": what},
    }


def placed(number: int, step: Step, ports: Sequence[int], sources: Sequence[int] = ()) -> Placed:
    return Placed(number, step, frozenset(ports), tuple(sources))


class Handed:
    """Gives each row on, with its key in front."""

    def take(self, row, now, step):
        step.give(row.time, (row.values[0], ":".join(row.values)), record_key=row.record_key)

    def pass_time(self, now, step): ...

    def end(self, now, step): ...


class Topology:
    """`levels`: from the records on; the results of the last one's steps are those of the line."""

    def __init__(self, levels: Sequence[Level], folder: str, shuffle: int, monkeypatch: Any) -> None:
        self._levels, self._folder, self._random = levels, folder, random.Random(shuffle)
        self._numbers = count()
        self._patch = monkeypatch

    def run(self, rows: Batch) -> Batch:
        number = next(self._numbers)
        self._patch.setattr(operators, "_micro_batch", lambda: number)
        for depth, level in enumerate(self._levels):
            rows = self._exchanged(self._let_out(rows, level))
            if level.steps is not None:
                rows = self._staged(rows, depth, level.steps())
        made = sorted((row for row in rows if row[OF] is not None), key=lambda row: row[AT])
        assert len({row[AT] for row in made}) == len(made), "no two rows are in one place"
        return made

    def _let_out(self, rows: Batch, level: Level) -> Batch:
        routes = [
            Route(lane=one.number, port=one.port, source=one.source) for one in level.lanes if one.port is not None
        ]
        maps = [
            Map(lane=one.number, origin=one.made, function=flat_map(level.flat))
            for one in level.lanes
            if one.made is not None and level.flat is not None
        ]
        outlet = Outlet(
            config={},
            writes=(),
            calls=(),
            gathers=(),
            routes=tuple(routes),
            maps=tuple(maps),
            shape=shape(),
            shards=SHARDS,
        )
        made: Batch = []
        for task in self._tasks(rows):
            made += [row for batch in outlet(iter([projected(task, level)])) for row in batch.to_pylist()]
        return made

    def _tasks(self, rows: Batch) -> list[Batch]:
        """Rows of one shard are one task, those of no shard are in any."""
        found: dict[int, Batch] = defaultdict(list)
        for row in rows:
            found[row.get(SHARD) or 0].append(row)
        return list(found.values())

    def _exchanged(self, rows: Batch) -> Batch:
        return self._random.sample(rows, len(rows))

    def _staged(self, rows: Batch, depth: int, steps: dict[int, Placed]) -> Batch:
        stage = Stage(
            folder=f"{self._folder}/level-{depth}",
            placed=tuple(steps.values()),
            origins={one.number: origin for origin, one in steps.items()},
            idle_after={},
            shape=shape(),
        )
        made: Batch = []
        for task in self._tasks(rows):
            made += [row for batch in stage(iter([table(task)])) for row in batch.to_pylist()]
        return made


def shape() -> Shape:
    structs = [pa.field(name(n), ROW) for n in range(8) for name in (origin_column, port_column)]
    return Shape(schema=pa.schema([*to_arrow_schema(WIRE, timezone="UTC"), *structs]))


def table(rows: Batch) -> pa.RecordBatch:
    schema = shape().schema
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def shown(rows: Batch, origin: int) -> list[tuple[str, str]]:
    return [tuple(row[origin_column(origin)].values()) for row in rows if row[OF] == origin]


def projected(rows: Batch, level: Level) -> pa.RecordBatch:
    batch = table(rows)
    for lane in level.lanes:
        kind = pa.struct([*LANE, ("row", MAPPED if lane.made is not None else ROW)])
        column = pa.array([taken(row, lane) for row in rows], kind)
        batch = batch.append_column(lane_column(lane.number), column)
    return batch


def taken(row: Row, lane: Lane) -> Row | None:
    if row[OF] != lane.origin:
        return None
    values = row[origin_column(lane.origin)]
    key = lane.key(values["key"], values["what"])
    if key is None:
        return None
    shown = {"key": key, "what": values["what"], "_key": row[RECORD_KEY], "_time": row[TIME], "_record": ""}
    return {
        "shard": zlib.crc32(key.encode()) % SHARDS,
        "key": row[RECORD_KEY],
        "time": row[TIME],
        "deleted": bool(row.get(DELETED)),
        "row": shown,
    }
