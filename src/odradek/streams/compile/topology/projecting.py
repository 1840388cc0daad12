"""The lanes from one operator to the next as columns: what all steps without state make of a row, in one projection.

The frame between operators has the columns of the wire (`WIRE`), one struct `s<n>` for the rows of each origin, and
after the projection one struct `lane<n>` for each lane, null where the row does not take it. A lane's steps work on the
user's columns, which lie open while the lane is being made; a filter drops no row, since other lanes need it: it ends
the row's life in its own lane, and what comes below it is not computed for the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.formats import key_bytes
from odradek.pipeline.formats.dead_letters import letter_columns
from odradek.pipeline.formats.encoding import record_columns
from odradek.pipeline.formats.json_text import WRITE_OPTIONS
from odradek.streams.compile.explanations import explaining
from odradek.streams.compile.failures import is_good
from odradek.streams.compile.headers import LISTED, are_headers, written_headers
from odradek.streams.compile.python_rows import own_record
from odradek.streams.compile.storable import check_storable
from odradek.streams.compile.topology.levels import Lane
from odradek.streams.graph import nodes
from odradek.streams.graph.column_names import check_keys
from odradek.streams.graph.columns import CARRIED, WINDOW_COLUMNS
from odradek.streams.graph.expressions import column_of
from odradek.streams.graph.sinks import DeadLetters, ForeachRow, LakeTable, LateRows, Materialize, Sink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX = "__odradek_"
OF, TO, SOURCE, SHARD, AT, TIME, RECORD_KEY, DELETED = (
    PREFIX + name for name in ("of", "to", "source", "shard", "at", "time", "record_key", "deleted")
)
LIVE = PREFIX + "live"
LATE_HEADER = "__streams.late."
WIRE = T.StructType(
    [
        T.StructField(OF, T.IntegerType()),  # the origin whose row this is
        T.StructField(TO, T.IntegerType()),  # the port that it is on its way to
        T.StructField(SOURCE, T.IntegerType()),  # a beat of this source, and no row
        T.StructField(SHARD, T.IntegerType()),
        T.StructField(AT, T.BinaryType()),
        T.StructField(TIME, T.TimestampType()),
        T.StructField(RECORD_KEY, T.BinaryType()),
        T.StructField(DELETED, T.BooleanType()),
    ]
)
FINAL = "__final"
"""Among the columns of a window's results: whether this is the final one, or a change on the way to it."""


RESERVED = (*CARRIED, "_headers", "_topic")
WHOLE = "__whole"
"""Among the columns of a port: the row as a record, for steps that give the rows that come too late."""


def origin_column(number: int) -> str:
    return f"{PREFIX}s{number}"


def port_column(number: int) -> str:
    return f"{PREFIX}p{number}"


def lane_column(number: int) -> str:
    return f"{PREFIX}lane{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How the struct of an origin becomes the columns that its first steps see."""

    columns: Callable[[], Sequence[Column]]  # over the open columns of the struct
    changelog: bool = False  # rows may be deletions
    finals: bool = False  # the struct has FINAL


Ending = tuple["Column", "Column"]
"""Whether a row takes the lane after all, and the struct that it is there."""


def open_columns(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if not name.startswith(PREFIX)]


def opened(frame: DataFrame, number: int, opening: Opening, lane: Lane) -> DataFrame:
    """The rows of an origin, their columns open, and those of all others as they were, with nulls there."""
    kept = list(frame.columns)
    struct, fields = origin_column(number), frame.schema[origin_column(number)].dataType
    live = F.col(OF) == number
    wide = frame.select(*kept, *[F.col(struct)[name].alias(name) for name in fields.names])  # type: ignore[attr-defined]
    if opening.finals:
        is_wanted = F.col(FINAL) if not takes_updates(lane) else ~F.col(FINAL)
        live = live & F.coalesce(is_wanted, F.lit(False))
    changelog = opening.changelog or (isinstance(lane.target, Sink) and keeps_windows(lane.target, lane.origin))
    return wide.select(
        *kept,
        *opening.columns(),
        F.col(RECORD_KEY).alias("_key"),
        F.col(TIME).alias("_time"),
        *([F.coalesce(F.col(DELETED), F.lit(False)).alias("_deleted")] if changelog else []),
        live.alias(LIVE),
    )


def takes_updates(lane: Lane) -> bool:
    return isinstance(lane.target, Sink) and lane.target.emit == "updates"


def keeps_windows(sink: Sink, step: nodes.Node) -> bool:
    """Whether a row of a step that a filter no longer accepts must go from a view: if the view has a row per window.

    If it has one per driver, what the filter rejects is the result of another window, and what was there stays.
    """
    windowed = isinstance(step, nodes.Aggregate) and step.window is not None and sink.emit == "updates"
    return windowed and isinstance(sink, Materialize) and {*sink.key} >= {*WINDOW_COLUMNS}


def travelled(rows: DataFrame, lane: Lane, merged: dict[nodes.Node, T.StructType]) -> DataFrame:
    """The rows after all steps of the lane; `merged`: the columns of each merge, as its first lane had them."""
    if "_error" in rows.columns and not isinstance(lane.target, DeadLetters):
        rows = _ended(rows, is_good(lane.origin)).drop("_error")  # type: ignore[arg-type]
    for node in lane.path:
        with explaining(node):
            check_keys(node, 0, open_columns(rows))
            rows = _merge(node, rows, merged) if isinstance(node, nodes.Merge) else _step(node, rows)
    return rows


def _merge(node: nodes.Merge, rows: DataFrame, merged: dict[nodes.Node, T.StructType]) -> DataFrame:
    own = T.StructType([rows.schema[name] for name in open_columns(rows) if name not in CARRIED])
    wanted = merged.setdefault(node, own)
    if set(own.names) != set(wanted.names):
        raise PipelineError(
            "streams with different columns cannot be merged",
            why=f"one has {', '.join(wanted.names)}, another {', '.join(own.names)}",
            instead="select() of the same columns on each, before merge()",
            origin=node.origin,
        )
    for name, one, other in ((name, wanted[name].dataType, own[name].dataType) for name in wanted.names):
        if one.simpleString() != other.simpleString():
            raise PipelineError(
                "streams with columns of different types cannot be merged",
                why=f"{name} is {one.simpleString()} in one, {other.simpleString()} in another",
                instead=f'the same type in both schemas, or .with_columns({name}=F.col("{name}").cast("…")) before',
                origin=node.origin,
            )
    rest = [name for name in rows.columns if name not in own.names]
    return rows.select(*[F.col(f"`{name}`") for name in wanted.names], *rest)


def _step(node: nodes.Node, rows: DataFrame) -> DataFrame:
    match node:
        case nodes.Filter():
            condition = F.coalesce(column_of(node.condition), F.lit(False))
            if "_deleted" in rows.columns:
                return rows.withColumn("_deleted", F.col("_deleted") | ~_if_live(condition))
            return _ended(rows, condition)
        case nodes.Select():
            columns = [column_of(column) for column in node.columns]
            chosen = rows.select(*columns).columns
            kept = [name for name in rows.columns if name.startswith(PREFIX) or name in CARRIED]
            return rows.select(*_guarded(columns, chosen), *[name for name in kept if name not in chosen])
        case nodes.WithColumns():
            return rows.withColumns({name: _if_live(column_of(value)) for name, value in node.columns.items()})
        case nodes.Drop():
            return rows.drop(*node.columns)
        case nodes.Rekey():
            return rows.withColumn("_key", key_bytes(rows.schema, node.key))
        case nodes.ToStream():
            return _ended(rows, ~F.col("_deleted")).drop("_deleted") if "_deleted" in rows.columns else rows
    raise AssertionError(f"{node.kind} is no expression")


def _ended(rows: DataFrame, condition: Column) -> DataFrame:
    """Rows for which the condition is not true leave the lane. Asked of those alone that have not left it before."""
    return rows.withColumn(LIVE, F.when(F.col(LIVE), condition).otherwise(F.lit(False)))


def _if_live(column: Column) -> Column:
    """What a filter keeps from a row must not be computed for it: it may fail there."""
    return F.when(F.col(LIVE), column)


def _guarded(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    if len(columns) != len(names):  # a star among them, which is no expression
        return list(columns)
    return [_if_live(column).alias(name) for column, name in zip(columns, names, strict=True)]


def finished(rows: DataFrame, lane: Lane, ending: Ending, kept: Sequence[str]) -> DataFrame:
    condition, struct = ending
    return rows.select(*kept, F.when(F.col(LIVE) & condition, struct).alias(lane_column(lane.number)))


def sink_ending(rows: DataFrame, sink: Sink) -> Ending:
    match sink:
        case DeadLetters():
            return F.col("_error").isNotNull(), F.struct(*letter_columns(sink.inputs[0].name))
        case ForeachRow():
            record = F.col("_record") if "_record" in rows.columns else own_record(rows)
            return F.lit(True), F.struct(*[F.col(f"`{name}`") for name in visible(rows)], record.alias("_record"))
        case LakeTable():
            return F.lit(True), F.struct(*[F.col(f"`{name}`") for name in table_columns(rows, sink)])
        case TopicSink() | Materialize():
            with explaining(sink):
                condition, columns = record_of(rows, sink)
                return condition, F.struct(*columns)
    raise AssertionError(f"{sink.kind} is no sink of a lane")


def late_ending(sink: LateRows, inputs: Mapping[int, str]) -> Ending:
    """`inputs`: the names of the steps whose rows came too late, by port."""
    told = {
        "step": F.lit(sink.inputs[0].name),
        "input": F.coalesce(*[F.when(F.col("port") == port, F.lit(name)) for port, name in inputs.items()]),
        "time": F.date_format("_time", WRITE_OPTIONS["timestampFormat"]),
        "ms": (F.col("behind") / 1000).cast("bigint").cast("string"),
    }
    headers = [
        F.struct(F.lit(LATE_HEADER + name).alias("key"), value.cast("binary").alias("value"))
        for name, value in told.items()
    ]
    columns = F.col("_key").alias("key"), F.col("value"), F.array(*headers).cast(LISTED).alias("headers")
    return F.lit(True), F.struct(*columns)


def visible(rows: DataFrame) -> list[str]:
    """The user's columns, and the two reserved ones that functions see."""
    return [name for name in rows.columns if not name.startswith(PREFIX) and name not in ("_deleted", "_record")]


def table_columns(rows: DataFrame, sink: LakeTable) -> list[str]:
    """The columns that a table in files gets, checked."""
    columns = [name for name in rows.columns if not name.startswith(PREFIX) and name not in RESERVED]
    check_keys(sink, 0, columns)
    check_storable(sink, T.StructType([rows.schema[name] for name in columns]))
    return columns


def record_of(rows: DataFrame, sink: TopicSink | Materialize) -> tuple[Column, list[Column]]:
    """The columns of the record that a sink writes of a row, and whether it writes one."""
    values = [name for name in rows.columns if not name.startswith(PREFIX) and name not in RESERVED]
    check_keys(sink, 0, values)
    if isinstance(sink, TopicSink):
        headers = written_headers(sink, rows)
        values = [name for name in values if headers is None or not are_headers(rows, name)]
        columns = record_columns(rows, sink.format, sink.key, values, sink.schema, headers)
        compacted = "compact" in sink.config.get("cleanup.policy", "")
    else:
        columns, compacted = record_columns(rows, "json", sink.key, values), True
    # a compacted topic rejects records without a key, and a table cannot store such a row
    return columns[0].isNotNull() if compacted else F.lit(True), columns


def port_ending(rows: DataFrame, columns: Sequence[Column], shard: Column | None) -> Ending:
    deleted = F.col("_deleted") if "_deleted" in rows.columns else F.lit(False)
    struct = F.struct(
        (F.lit(0) if shard is None else shard).alias("shard"),
        F.col("_key").alias("key"),
        F.col("_time").alias("time"),
        deleted.alias("deleted"),
        F.struct(*columns).alias("row"),
    )
    return F.lit(True), struct


def shard_of(keys: Sequence[Column], shards: int) -> Column:
    """By the text of the key: an int and a long that are equal are the same key."""
    if not keys:
        return F.lit(0)
    return F.pmod(F.hash(*[key.cast("string") for key in keys]), F.lit(shards))
