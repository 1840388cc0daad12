"""What operators hand on, without Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.streams.compile.topology.operators import Shape, Stage
from odradek.streams.compile.topology.projecting import AT, OF, SHARD, SOURCE, TO, WIRE

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
