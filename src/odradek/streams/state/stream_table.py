"""Each event of a stream with the newest row of a table.

- The table is a changelog that goes on while the query runs; a changed row is seen by the next event of its key.
- Rows of one key in one micro-batch are taken in the order of their times, the table first where they are equal.
- An event that comes late sees the newest row, never the one that was there at its time.
- Of the rows of a table the one that came last holds, whatever its time says, as in a compacted topic.

A watermark on the stream is kept (events later than it are dropped, rows of the table never are). Without one no event
is dropped, and the watermark can be set on the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.streams.errors import PipelineError
from odradek.streams.state.buckets import Entries, bucket
from odradek.streams.state.carriage import Carriage, quoted
from odradek.streams.state.event_time import has_watermark, without_watermark

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

Join = Literal["inner", "left"]
EVENT, KEYLESS_EVENT, TABLE_ROW, DELETION = range(4)
RESERVED = ("_key", "_time", "_deleted")


def stream_table_join(stream: DataFrame, table: DataFrame, on: Mapping[str, str], how: Join = "inner") -> DataFrame:
    """All columns of the stream and those of the table, but for the reserved ones and the table's columns in `on`.

    `on`: column of the stream -> column of the table. `table` has a row per change: its columns, `_time`, and
    `_deleted`; in a deletion the columns of `on` must be filled.
    """
    added = [f for f in table.schema if f.name not in (*RESERVED, *on.values())]
    _refuse_clashes({f.name for f in stream.schema}, {f.name for f in added})
    timed = has_watermark(stream)
    # A table of nothing but its key still says which keys there are.
    carried = added or [table.schema[column] for column in on.values()]
    events, rows = Carriage(stream.schema.fields, "e"), Carriage(carried, "t")
    both = _events(stream, on, events, rows, how).unionByName(_rows(table, on, events, rows))
    if not timed:
        both = both.drop("_time")
    keys = Carriage([both.schema[f"on{n}"] for n in range(len(on))], "k")
    names = [f.name for f in keys.fields]
    spread = F.when(F.col("side") == KEYLESS_EVENT, bucket([F.col("at")])).otherwise(bucket([F.col(n) for n in names]))
    packed = both.select(spread.alias("bucket"), *keys.pack(), *[c for c in both.columns if c not in names])
    joined = packed.groupBy("bucket").transformWithStateInPandas(
        _Lookup(keys.schema, events.schema, rows.schema, left=how == "left", timed=timed),
        outputStructType=_output(events, rows, timed),
        outputMode="Append",
        timeMode="EventTime" if timed else "None",
        eventTimeColumnName="_time" if timed else "",
    )
    event = dict(zip(stream.columns, events.unpack(), strict=True))
    if timed:
        event["_time"] = F.col("_time")
    return joined.select(*event.values(), *(rows.unpack(present=F.col("found")) if added else ()))


def _events(stream: DataFrame, on: Mapping[str, str], events: Carriage, rows: Carriage, how: Join) -> DataFrame:
    keyed = [F.col(quoted(column)) for column in on]
    keyless = _any_null(keyed)
    if how == "inner":
        stream = stream.filter(~keyless)
    return stream.select(
        *[key.alias(f"on{n}") for n, key in enumerate(keyed)],
        F.when(keyless, KEYLESS_EVENT).otherwise(EVENT).alias("side"),
        F.unix_micros("_time").alias("at"),
        "_time",
        *events.pack(),
        *rows.absent(),
    )


def _rows(table: DataFrame, on: Mapping[str, str], events: Carriage, rows: Carriage) -> DataFrame:
    table = without_watermark(table)
    keyed = [F.col(quoted(column)) for column in on.values()]
    return table.filter(~_any_null(keyed)).select(
        *[key.alias(f"on{n}") for n, key in enumerate(keyed)],
        F.when(F.col("_deleted"), DELETION).otherwise(TABLE_ROW).alias("side"),
        F.unix_micros("_time").alias("at"),
        F.lit(None).cast("timestamp").alias("_time"),  # null: later than no watermark
        *events.absent(),
        *rows.pack(),
    )


def _any_null(columns: list[Column]) -> Column:
    found = columns[0].isNull()
    for column in columns[1:]:
        found = found | column.isNull()
    return found


def _output(events: Carriage, rows: Carriage, timed: bool) -> T.StructType:
    time = [T.StructField("_time", T.TimestampType())] if timed else []
    return T.StructType([*time, *events.schema, *rows.schema, T.StructField("found", T.BooleanType())])


def _refuse_clashes(stream: set[str], table: set[str]) -> None:
    if clashes := sorted(stream & table):
        raise PipelineError(
            f"stream and table both have {', '.join(clashes)}",
            why="the result would have two columns of one name",
            instead="a name of its own on one side, with select or with_columns",
        )


class _Lookup(StatefulProcessor):
    def __init__(
        self, keys: T.StructType, events: T.StructType, rows: T.StructType, *, left: bool, timed: bool
    ) -> None:
        self._keys, self._rows = keys, rows
        self._key_columns, self._event_columns, self._row_columns = keys.names, events.names, rows.names
        self._left = left
        self._timed = timed
        self._nothing = tuple(0 if isinstance(f.dataType, T.NumericType) else None for f in rows)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: MapState = handle.getMapState("rows", self._keys, self._rows)

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        batch = pd.concat(list(rows), ignore_index=True)
        keys = _tuples(batch, self._key_columns)
        sides = batch["side"].tolist()
        payloads = _tuples(batch, self._row_columns)
        entries = Entries(self._state)
        entries.expect(keys)
        met, found = [], []
        for index in _in_order(keys, sides, batch["at"].tolist()):
            side = sides[index]
            if side == TABLE_ROW:
                entries[keys[index]] = payloads[index]
            elif side == DELETION:
                entries[keys[index]] = None
            else:
                row = entries[keys[index]] if side == EVENT else None
                if row is not None or self._left:
                    met.append(index)
                    found.append(row)
        entries.save()
        if met:
            yield self._joined(batch.iloc[met], found)

    def _joined(self, events: pd.DataFrame, found: list[tuple[Any, ...] | None]) -> pd.DataFrame:
        import pandas as pd

        joined = {name: events[name].array for name in self._event_columns}
        columns = zip(*[self._nothing if row is None else row for row in found], strict=True)
        joined |= dict(zip(self._row_columns, map(list, columns), strict=True))
        joined["found"] = [row is not None for row in found]
        if self._timed:
            joined["_time"] = pd.to_datetime(events["at"], unit="us", utc=True).array
        return pd.DataFrame(joined)

    def close(self) -> None: ...


def _tuples(batch: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*[batch[name].tolist() for name in columns], strict=True))


def _in_order(keys: list[tuple[Any, ...]], sides: list[int], times: list[int]) -> list[int]:
    """Indices by time, rows of the table first; a row of the table never comes before one that arrived before it."""
    newest: dict[tuple[Any, ...], int] = {}
    order = []
    for index, (key, side, time) in enumerate(zip(keys, sides, times, strict=True)):
        if side >= TABLE_ROW:
            newest[key] = at = max(time, newest.get(key, time))
            order.append((at, 0, index))
        else:
            order.append((time, 1, index))
    order.sort()
    return [index for _, _, index in order]
