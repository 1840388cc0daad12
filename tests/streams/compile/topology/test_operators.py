"""What operators hand on, without Spark."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.streams.compile.python_rows import PieceByPiece
from odradek.streams.compile.topology import operators
from odradek.streams.compile.topology.operators import WALL, Map, Outlet, Shape, Stage, open_store
from odradek.streams.compile.topology.projecting import AT, OF, SHARD, SOURCE, TIME, TO, WIRE
from odradek.streams.engine.clock import Source
from streams.compile.topology.line import (
    SHARDS,
    Handed,
    Lane,
    Level,
    Topology,
    flat_map,
    placed,
    projected,
    record,
    shape,
)

SHAPE = Shape(schema=to_arrow_schema(WIRE, timezone="UTC"))


def test_a_stage_passes_on_rows_of_other_ports_results_of_maps_and_time():
    of, to, source = [4, None, None, None], [None, 1, 2, None], [None, None, None, 9]
    columns = {
        name: pa.array(values, pa.int32())
        for name, values in ((OF, of), (TO, to), (SOURCE, source), (SHARD, [None, 0, 0, 0]))
    }
    batch = SHAPE.batch({**columns, AT: pa.array([b"a", b"b", b"c", b"d"], pa.binary())}, 4)
    stage = Stage(folder="", placed=(), origins={}, idle_after={}, shape=SHAPE)
    passed = pa.Table.from_batches(stage._passing(batch, ports=[1]), SHAPE.schema).to_pylist()
    assert [(row[OF], row[TO], row[SOURCE]) for row in passed] == [(4, None, None), (None, 2, None), (None, None, 9)]


def test_a_tick_has_every_shard_of_every_stage_look_at_the_clock(tmp_path, monkeypatch):
    looked = []

    class Clocked(Handed):
        def __init__(self, name):
            self.name = name

        def end(self, now, step):
            looked.append((self.name, now))

    levels = [
        Level(
            lanes=[Lane(number=0, origin=0, port=0, source=Source(9, 0))],
            steps=lambda: {1: placed(71, Clocked("first"), [0], [9])},
        ),
        Level(
            lanes=[Lane(number=1, origin=1, port=1)],
            steps=lambda: {2: placed(72, Clocked("second"), [1], [9])},
        ),
    ]
    line = Topology(levels, str(tmp_path), 1, monkeypatch)
    assert line.run([{OF: WALL, AT: b"\xff" * 22}]) == []
    assert looked == [("first", None)] * SHARDS + [("second", None)] * SHARDS
    looked.clear()
    line.run([record(0, 0, 1_000_000, "key", "what"), {OF: WALL, AT: b"\xff" * 22}])
    assert looked == [("first", 1_000_000)] * SHARDS + [("second", 1_000_000)] * SHARDS, "event time is that of rows"


def test_results_of_functions_of_rows_stay_in_the_task_that_made_them(tmp_path, monkeypatch):
    """So they are not all in the first shard's task, and rows of one key are written in their order."""
    monkeypatch.setattr(operators, "_task", lambda: 7)
    outlet = Outlet(
        config={},
        writes=(),
        calls=(),
        gathers=(),
        routes=(),
        maps=(Map(lane=0, origin=1, function=flat_map(lambda row: [row.asDict() | {"what": n} for n in "ab"])),),
        shape=shape(),
        shards=3,
    )
    level = Level(lanes=[Lane(number=0, origin=0, made=1)])
    rows = projected([record(0, n, 0, "key", "") for n in range(2)], level)
    made = pa.Table.from_batches(outlet(iter([rows])), shape().schema).to_pylist()
    assert [row[SHARD] for row in made] == [1] * 4
    assert [row[AT] for row in made] == sorted({row[AT] for row in made})


def test_pieces_without_a_time_have_that_of_processing(monkeypatch):
    """As docs/streams/stateless-steps.md says of map_pandas."""

    def halved(frame):
        return frame[["key", "what"]].assign(_time=[frame["_time"][0], None])

    level = Level(lanes=[Lane(number=0, origin=0, made=1)])
    rows = projected([record(0, n, 1_000_000, "key", "") for n in range(2)], level)
    before = datetime.now(UTC)
    for function, times in ((halved, 1), (lambda frame: frame[["key", "what"]], 0)):
        pieces = PieceByPiece(function, ["key", "what", "_key", "_time"])
        outlet = Outlet(
            config={},
            writes=(),
            calls=(),
            gathers=(),
            routes=(),
            maps=(Map(lane=0, origin=1, function=pieces),),
            shape=shape(),
            shards=3,
        )
        made = pa.Table.from_batches(outlet(iter([rows])), shape().schema).to_pylist()
        assert [row[TIME].timestamp() for row in made[:times]] == [1.0] * times
        assert all(before <= row[TIME] <= datetime.now(UTC) for row in made[times:])
        assert len({row[AT] for row in made}) == 2


def test_a_worker_keeps_a_bounded_number_of_stores_open(tmp_path, monkeypatch):
    monkeypatch.setattr(operators, "STORES_MAX", 2)
    monkeypatch.setattr(operators, "_stores", OrderedDict())
    first, second, third = (tmp_path / f"shard-{n}.db" for n in range(3))
    stores = [open_store(first), open_store(second)]
    assert open_store(first) is stores[0]
    open_store(third)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        stores[1].begin(0)
    assert open_store(first) is stores[0]
    assert len(operators._stores) == 2
