"""State on a directory that several hosts share: SQLite's write-ahead log is for the processes of one host alone."""

from __future__ import annotations

import sqlite3

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.streams.compile.topology import operators
from odradek.streams.compile.topology.operators import Shape, Stage
from odradek.streams.compile.topology.projecting import AT, SHARD, SOURCE, TIME, WIRE
from odradek.streams.engine.order import record_position

SHAPE = Shape(schema=to_arrow_schema(WIRE, timezone="UTC"))


@pytest.mark.parametrize(("several_hosts", "journal"), [(False, "wal"), (True, "delete")])
def test_the_state_of_several_hosts_has_a_journal_that_all_of_them_can_read(
    tmp_path, monkeypatch, several_hosts, journal
):
    monkeypatch.setattr(operators, "_micro_batch", lambda: 0)
    beat = {
        SOURCE: pa.array([1], pa.int32()),
        SHARD: pa.array([0], pa.int32()),
        AT: pa.array([record_position(0, 0, 0, 0)]),
    }
    beat[TIME] = pa.array([0], SHAPE.schema.field(TIME).type)
    stage = Stage(folder=str(tmp_path), placed=(), origins={}, idle_after={}, shape=SHAPE, several_hosts=several_hosts)
    list(stage(iter([SHAPE.batch(beat, 1)])))
    path = tmp_path / "shard-0.db"
    assert sqlite3.connect(path).execute("pragma journal_mode").fetchone() == (journal,)
    assert (path in operators._stores) is not several_hosts, "an open file would be seen by this host alone"
