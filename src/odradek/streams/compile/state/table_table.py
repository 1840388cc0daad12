"""Two tables as one: changelogs in, a changelog out.

A change on either side leads to at most one change of the joined row per micro-batch: its new state, or its deletion.
Within a micro-batch changes are taken in the order of their times; one that comes later holds, whatever its time says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.streams.compile.event_time import without_watermark
from odradek.streams.compile.state.buckets import Entries, bucket
from odradek.streams.compile.state.carriage import Carriage, quoted
from odradek.streams.compile.state.changes import RESERVED, any_null, refuse_clashes, tuples

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

Join = Literal["inner", "left", "outer"]
Pair = tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]
HOLDS: Mapping[Join, tuple[bool, bool]] = {"inner": (True, True), "left": (True, False), "outer": (False, False)}
"""Which sides a joined row cannot be without."""


def table_table_join(left: DataFrame, right: DataFrame, on: Mapping[str, str], how: Join = "inner") -> DataFrame:
    """The columns of `on` under their left names, the others of the left and the right, `_key`, `_time`, `_deleted`.

    `on`: key column of the left -> key column of the right table. In a deletion, in and out, the key is filled.
    """
    mine = [f for f in left.schema if f.name not in (*RESERVED, *on)]
    theirs = [f for f in right.schema if f.name not in (*RESERVED, *on.values())]
    refuse_clashes({*on, *(f.name for f in mine)}, {f.name for f in theirs})
    # "there" keeps a table of nothing but its key from being a state without columns
    sides = Carriage([*mine, THERE], "l"), Carriage([*theirs, THERE], "r")
    both = _changes(left, list(on), sides, 0).unionByName(_changes(right, list(on.values()), sides, 1))
    keys = Carriage(
        [T.StructField(name, both.schema[f"on{n}"].dataType) for n, name in enumerate(on)], "k", is_key=True
    )
    named = both.withColumnsRenamed({f"on{n}": name for n, name in enumerate(on)})
    packed = named.select(
        bucket([F.col(quoted(name)) for name in on]).alias("bucket"),
        *keys.pack(),
        *[quoted(name) for name in named.columns if name not in on],
    )
    output = [T.StructField("_key", T.BinaryType()), T.StructField("at", T.LongType())]
    output += [T.StructField(name, T.BooleanType()) for name in ("in_left", "in_right", "_deleted")]
    joined = packed.groupBy("bucket").transformWithStateInPandas(
        _Pairs(keys.schema, sides, HOLDS[how]),
        outputStructType=T.StructType([*keys.schema, *sides[0].schema, *sides[1].schema, *output]),
        outputMode="Append",
        timeMode="None",
    )
    columns = sides[0].unpack(present=F.col("in_left"))[:-1] + sides[1].unpack(present=F.col("in_right"))[:-1]
    return joined.select(*keys.unpack(), *columns, "_key", F.timestamp_micros("at").alias("_time"), "_deleted")


THERE = T.StructField("_there", T.BooleanType())


def _changes(table: DataFrame, keys: list[str], sides: tuple[Carriage, Carriage], side: int) -> DataFrame:
    table = without_watermark(table).withColumn(THERE.name, F.lit(True))
    keyed = [F.col(quoted(key)) for key in keys]
    packed: list[Column] = []
    for number, carriage in enumerate(sides):
        packed += carriage.pack() if number == side else carriage.absent()
    return table.filter(~any_null(keyed)).select(
        *[key.alias(f"on{n}") for n, key in enumerate(keyed)],
        F.lit(side).alias("side"),
        F.unix_micros("_time").alias("at"),
        # no name on the way into pandas begins with _: Spark's worker loses those
        (F.col("_key") if "_key" in table.columns else F.lit(None).cast("binary")).alias("key"),
        F.col("_deleted").alias("deleted"),
        *packed,
    )


class _Pairs(StatefulProcessor):
    def __init__(self, keys: T.StructType, sides: tuple[Carriage, Carriage], holds: tuple[bool, bool]) -> None:
        self._keys, self._holds = keys, holds
        self._sides = [side.schema for side in sides]
        self._nothing = [side.nothing for side in sides]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._left: MapState = handle.getMapState("left", self._keys, self._sides[0])
        self._right: MapState = handle.getMapState("right", self._keys, self._sides[1])

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        batch = pd.concat(list(rows)).sort_values("at", kind="stable")
        keys = tuples(batch, self._keys.names)
        entries = Entries(self._left), Entries(self._right)
        for one in entries:
            one.expect(keys)
        before: dict[tuple[Any, ...], Pair] = {}
        newest: dict[tuple[Any, ...], int] = {}
        payloads = [tuples(batch, side.names) for side in self._sides]
        for index, (side, deleted) in enumerate(zip(batch["side"].tolist(), batch["deleted"].tolist(), strict=True)):
            changed = keys[index]
            before.setdefault(changed, (entries[0][changed], entries[1][changed]))
            entries[side][changed] = None if deleted else payloads[side][index]
            newest[changed] = index
        for one in entries:
            one.save()
        changes = [
            (changed, pair, newest[changed])
            for changed, was in before.items()
            if (pair := self._visible((entries[0][changed], entries[1][changed]))) != self._visible(was)
        ]
        if changes:
            yield self._changelog(batch, changes)

    def _visible(self, pair: Pair) -> Pair | None:
        there = [row is not None for row in pair]
        held = all(is_there for is_there, must in zip(there, self._holds, strict=True) if must)
        return pair if held and any(there) else None

    def _changelog(self, batch: pd.DataFrame, changes: list[tuple[tuple[Any, ...], Pair | None, int]]) -> pd.DataFrame:
        import pandas as pd

        lists: dict[str, Any] = dict(
            zip(self._keys.names, zip(*[key for key, _, _ in changes], strict=True), strict=True)
        )
        for number, side in enumerate(self._sides):
            found = [pair[number] if pair is not None else None for _, pair, _ in changes]
            filled = zip(*[self._nothing[number] if row is None else row for row in found], strict=True)
            lists |= dict(zip(side.names, filled, strict=True))
            lists[("in_left", "in_right")[number]] = [row is not None for row in found]
        last = batch.iloc[[index for _, _, index in changes]]
        lists |= {"_key": last["key"].tolist(), "at": last["at"].tolist()}
        lists["_deleted"] = [pair is None for _, pair, _ in changes]
        return pd.DataFrame({name: list(values) for name, values in lists.items()})

    def close(self) -> None: ...
