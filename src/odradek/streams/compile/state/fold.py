"""An aggregate in Python per key: `function(aggregate, row) -> aggregate`, with a row of results for each change.

Rows of a key come in the order of their times within a micro-batch, and each key that changed in it gives one row, its
newest. An aggregate comes back to the function as what `initial` is: a dict, a dataclass, a tuple, a plain value; a Row
when `initial` is None, which is for functions that begin with their first row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.pipeline.formats.schemas import Schema, struct_of
from odradek.streams.compile.event_time import without_watermark
from odradek.streams.compile.state.buckets import Entries, bucket
from odradek.streams.compile.state.carriage import Carriage, quoted
from odradek.streams.compile.state.changes import any_null
from odradek.streams.compile.state.folded_values import FoldedValues
from odradek.streams.compile.state.output import Output
from odradek.streams.compile.state.values import nullable_struct, row_reader

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

Function = Callable[[Any, Row], Any]


def fold(rows: DataFrame, keys: Sequence[str], initial: Any, function: Function, schema: Schema) -> DataFrame:  # noqa: ANN401
    """A changelog: the keys, the columns of `schema`, `_key` (null), `_time` (of the newest row), `_deleted`.

    Rows without a key are left out. When the function returns None the aggregate is over: a deletion.
    """
    result = nullable_struct(struct_of(schema))
    rows = without_watermark(rows)
    by = Carriage([rows.schema[key] for key in keys], "__k", is_key=True)
    keyed = [F.col(quoted(key)) for key in keys]
    packed = rows.filter(~any_null(keyed)).select(bucket(keyed).alias("__bucket"), *by.pack(), "*")
    columns = [f for f in nullable_struct(rows.select(*keyed).schema) if f.name not in result.names]
    times = [T.StructField("_time", T.TimestampType()), T.StructField("_deleted", T.BooleanType())]
    folded = packed.groupBy("__bucket").transformWithState(
        _Folding(function, initial, list(keys), by.schema, rows.schema, result),
        outputStructType=T.StructType([*columns, *result, *times]),
        outputMode="Append",
        timeMode="None",
    )
    return folded.withColumn("_key", F.lit(None).cast("binary"))


class _Folding(StatefulProcessor):
    def __init__(
        self,
        function: Function,
        initial: Any,  # noqa: ANN401
        keys: list[str],
        packed_keys: T.StructType,
        rows: T.StructType,
        result: T.StructType,
    ) -> None:
        self._function, self._initial = function, initial
        self._values = FoldedValues(initial, result)
        self._keys, self._packed_keys, self._rows, self._result = keys, packed_keys, rows, result

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: MapState = handle.getMapState("aggregates", self._packed_keys, self._result)
        self._read_row = row_reader(self._rows)
        self._make_row = Row(*self._rows.names)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Output]:
        ordered = sorted(rows, key=_time)
        entries = Entries(self._state)
        keys = [tuple(row[name] for name in self._packed_keys.names) for row in ordered]
        entries.expect(keys)
        aggregates: dict[tuple[Any, ...], Any] = {}
        newest: dict[tuple[Any, ...], Row] = {}
        for one, row in zip(keys, ordered, strict=True):
            if one not in aggregates:
                aggregates[one] = self._values.revived(entries[one])
            aggregate = copy.deepcopy(self._initial) if aggregates[one] is None else aggregates[one]
            aggregates[one] = self._function(aggregate, self._shown(row))
            newest[one] = row
        for one, aggregate in aggregates.items():
            entries[one] = None if aggregate is None else self._values.storable(aggregate)
            yield self._output(newest[one], aggregate)
        entries.save()

    def close(self) -> None: ...

    def _shown(self, row: Row) -> Row:
        """Without the bucket and the packed keys, which come first."""
        return self._read_row(self._make_row(*row[1 + len(self._packed_keys) :]))

    def _output(self, row: Row, aggregate: Any) -> Output:  # noqa: ANN401
        columns = {} if aggregate is None else self._values.columns(aggregate)
        keys = {name: row[name] for name in self._keys}
        return Output({**keys, **columns}, _time=row["_time"], _deleted=aggregate is None)


def _time(row: Row) -> datetime:
    time: datetime = row["_time"]
    return time
