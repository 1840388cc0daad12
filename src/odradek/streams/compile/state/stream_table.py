"""Each event of a stream with the newest row of a table.

- The table is a changelog that goes on while the query runs; a changed row is seen by the next event of its key.
- Within a micro-batch rows are taken in the order of their times, the table first where they are equal. An event
  that is older than the first row of its key sees that row: history meets a table that was loaded later.
- An event of a later micro-batch sees the newest row, however late it is itself: never an older version.
- A row of the table that comes in a later micro-batch holds, whatever its time says, as in a compacted topic.

A watermark on the stream is kept (events later than it are dropped, rows of the table never are). Without one no event
is dropped, and the watermark can be set on the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.streams.compile.event_time import has_watermark, without_watermark
from odradek.streams.compile.state.buckets import Entries, bucket
from odradek.streams.compile.state.carriage import Carriage, quoted
from odradek.streams.compile.state.changes import RESERVED, any_null, refuse_clashes, tuples

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

Join = Literal["inner", "left"]
DELETION, TABLE_ROW, EVENT, KEYLESS_EVENT = range(4)


def stream_table_join(stream: DataFrame, table: DataFrame, on: Mapping[str, str], how: Join = "inner") -> DataFrame:
    """All columns of the stream and those of the table, but for the reserved ones and the table's columns in `on`.

    `on`: column of the stream -> column of the table. `table` has a row per change: its columns, `_time`, and
    `_deleted`; in a deletion the columns of `on` must be filled.
    """
    added = [f for f in table.schema if f.name not in (*RESERVED, *on.values())]
    refuse_clashes({f.name for f in stream.schema}, {f.name for f in added})
    timed = has_watermark(stream)
    # A table of nothing but its key still says which keys there are.
    carried = added or [table.schema[column] for column in on.values()]
    events, rows = Carriage(stream.schema.fields, "e"), Carriage(carried, "t")
    both = _events(stream, on, events, rows, how).unionByName(_rows(table, on, events, rows))
    if not timed:
        both = both.drop("_time")
    keys = Carriage([both.schema[f"on{n}"] for n in range(len(on))], "k", is_key=True)
    names = [f.name for f in keys.fields]
    spread = F.when(F.col("side") == KEYLESS_EVENT, bucket([F.col("at")])).otherwise(bucket([F.col(n) for n in names]))
    packed = both.select(spread.alias("bucket"), *keys.pack(), *[c for c in both.columns if c not in names])
    joined = packed.groupBy("bucket").transformWithStateInPandas(
        _Lookup(keys.schema, events.schema, rows, left=how == "left", timed=timed),
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
    keyless = any_null(keyed)
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
    return table.filter(~any_null(keyed)).select(
        *[key.alias(f"on{n}") for n, key in enumerate(keyed)],
        F.when(F.col("_deleted"), DELETION).otherwise(TABLE_ROW).alias("side"),
        F.unix_micros("_time").alias("at"),
        F.lit(None).cast("timestamp").alias("_time"),  # null: later than no watermark
        *events.absent(),
        *rows.pack(),
    )


def _output(events: Carriage, rows: Carriage, timed: bool) -> T.StructType:
    time = [T.StructField("_time", T.TimestampType())] if timed else []
    return T.StructType([*time, *events.schema, *rows.schema, T.StructField("found", T.BooleanType())])


def _first_changes(
    keys: list[tuple[Any, ...]], sides: list[int], payloads: list[tuple[Any, ...]]
) -> dict[tuple[Any, ...], tuple[Any, ...] | None]:
    """By key: the first version of the row in this micro-batch."""
    first: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
    for key, side, payload in zip(keys, sides, payloads, strict=True):
        if side < EVENT:
            first.setdefault(key, payload if side == TABLE_ROW else None)
    return first


class _Lookup(StatefulProcessor):
    def __init__(self, keys: T.StructType, events: T.StructType, rows: Carriage, *, left: bool, timed: bool) -> None:
        self._keys, self._rows = keys, rows.schema
        self._event_columns = events.names
        self._nothing = rows.nothing
        self._left, self._timed = left, timed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: MapState = handle.getMapState("rows", self._keys, self._rows)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        import numpy as np
        import pandas as pd

        arrived = pd.concat(list(rows))
        batch = arrived.iloc[np.lexsort((arrived["side"] >= EVENT, arrived["at"]))]
        keys = tuples(batch, self._keys.names)
        sides = batch["side"].tolist()
        payloads = tuples(batch, self._rows.names)
        entries = Entries(self._state)
        entries.expect(key for key, side in zip(keys, sides, strict=True) if side == EVENT)
        coming = _first_changes(keys, sides, payloads)
        met, found = [], []
        for index, side in enumerate(sides):
            if side < EVENT:
                entries[keys[index]] = payloads[index] if side == TABLE_ROW else None
                coming.pop(keys[index], None)
            else:
                row = entries[keys[index]] or coming.get(keys[index]) if side == EVENT else None
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
        joined |= dict(zip(self._rows.names, map(list, columns), strict=True))
        joined["found"] = [row is not None for row in found]
        if self._timed:
            joined["_time"] = pd.to_datetime(events["at"], unit="us", utc=True).array
        return pd.DataFrame(joined)

    def close(self) -> None: ...
