"""The nodes of the graph as steps that an operator hosts: what they take, what they give, and how that is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.formats.encoding import record_columns
from odradek.pipeline.formats.schemas import struct_of
from odradek.streams.compile.python_rows import ERROR, PieceByPiece, Reducing, RowByRow, with_record
from odradek.streams.compile.state.fold_step import FoldStep
from odradek.streams.compile.state.process import checked_plan
from odradek.streams.compile.state.process_step import ProcessStep
from odradek.streams.compile.state.values import nullable_struct
from odradek.streams.compile.topology.aggregating import Decomposed, decomposed
from odradek.streams.compile.topology.levels import delay, micros
from odradek.streams.compile.topology.projecting import FINAL, PREFIX, WHOLE, Opening, shard_of, visible
from odradek.streams.engine.shard import Step
from odradek.streams.engine.steps.aggregates import Aggregates
from odradek.streams.engine.steps.duplicates import Duplicates
from odradek.streams.engine.steps.lookup import Lookup
from odradek.streams.engine.steps.sliding import SlidingWindows
from odradek.streams.engine.steps.stream_join import StreamJoin
from odradek.streams.engine.steps.table_join import How as TableHow
from odradek.streams.engine.steps.table_join import TableJoin
from odradek.streams.engine.steps.totals import Totals
from odradek.streams.engine.steps.windows import FixedWindows, Sessions
from odradek.streams.graph import nodes
from odradek.streams.graph.checks import waits_for_time
from odradek.streams.graph.column_names import check_keys, joined_names
from odradek.streams.graph.columns import CARRIED, WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from odradek.streams.graph.windows import Window

MapFunction = RowByRow | PieceByPiece
Join = nodes.StreamJoin | nodes.StreamTableJoin | nodes.TableTableJoin


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """`output`: the columns of its results, as the step gives them."""

    output: T.StructType
    opening: Opening
    step: Step | None = None
    function: MapFunction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """What of a row goes into a port."""

    columns: tuple[Column, ...]
    shard: Column | None
    schema: T.StructType
    calls: Decomposed | None = None  # of an aggregate
    whole: Column | None = None  # the row as a record, if it is given when it comes too late

    @property
    def carried(self) -> tuple[Column, ...]:
        """What travels to the port."""
        return self.columns if self.whole is None else (*self.columns, self.whole.alias(WHOLE))

    @property
    def carried_schema(self) -> T.StructType:
        added = [] if self.whole is None else [T.StructField(WHOLE, T.BinaryType())]
        return T.StructType([*self.schema, *added])


def user_columns(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if not name.startswith(PREFIX) and name not in CARRIED]


def entrance(node: nodes.Node, side: int, rows: DataFrame, shards: int, *, late_rows: bool) -> Entrance:
    """The entrance of a lane's rows into a side of a hosted step. `late_rows`: the step returns late rows unchanged."""
    check_keys(node, side, user_columns(rows))
    entry = _own_entrance(node, side, rows, shards)
    return replace(entry, whole=as_json(rows, user_columns(rows))) if late_rows else entry


def as_json(rows: DataFrame, names: Sequence[str]) -> Column:
    return record_columns(rows, "json", columns=names)[1]


def _own_entrance(node: nodes.Node, side: int, rows: DataFrame, shards: int) -> Entrance:
    match node:
        case nodes.MapRows():
            rows = with_record(rows)
            return _entrance(rows, [*visible(rows), "_record"], None)
        case nodes.MapPandas():
            return _entrance(rows, visible(rows), None)
        case nodes.Process():
            rows = with_record(rows) if has_dead_letters(node) else rows.drop("_record")
            return _entrance(
                rows, [*visible(rows), *(["_record"] if has_dead_letters(node) else [])], _by(node.keys, shards)
            )
        case nodes.Fold():
            return _entrance(rows, visible(rows), _by(node.keys, shards))
        case nodes.Deduplicate():
            return _entrance(rows, user_columns(rows), _by(node.on, shards))
        case nodes.Aggregate():
            return _aggregate_entrance(node, rows, shards)
        case nodes.StreamJoin() | nodes.StreamTableJoin() | nodes.TableTableJoin():
            return _entrance(rows, user_columns(rows), _by(join_keys(node)[side], shards))
    raise AssertionError(f"{node.kind} is not hosted")


def has_dead_letters(node: nodes.Process) -> bool:
    return node.dlq is not None or node.on_error == "skip"


def join_keys(node: Join) -> tuple[tuple[str, ...], ...]:
    return tuple(node.on), tuple(node.on.values())


def comparable_keys(node: Join, inputs: Inputs) -> tuple[tuple[str, ...], ...]:
    """The columns joined on. Keys of different types would never be equal: rows of a value go to different shards."""
    left, right = inputs.schemas
    for mine, theirs in node.on.items():
        one, other = left[mine].dataType, right[theirs].dataType
        if not same_key(one, other):
            raise PipelineError(
                "columns of different types cannot be joined on",
                why=f"{mine} is {one.simpleString()}, {theirs} is {other.simpleString()}",
                instead="the same type in both schemas, or before the join "
                f'.with_columns({theirs}=F.col("{theirs}").cast("{one.simpleString()}"))',
                origin=node.origin,
            )
    return join_keys(node)


def same_key(one: T.DataType, other: T.DataType) -> bool:
    """Whether equal values of both types have the same text, so that they reach the same shard and are one key."""
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        return one.scale == other.scale
    whole = T.ByteType, T.ShortType, T.IntegerType, T.LongType
    return (isinstance(one, whole) and isinstance(other, whole)) or one.simpleString() == other.simpleString()


def _by(keys: Sequence[str], shards: int) -> Column:
    return shard_of([F.col(f"`{key}`") for key in keys], shards)


def _entrance(rows: DataFrame, names: Sequence[str], shard: Column | None) -> Entrance:
    schema = T.StructType([T.StructField(name, rows.schema[name].dataType) for name in names])
    columns = tuple(_column(rows, name) for name in names)
    return Entrance(columns=columns, shard=shard, schema=schema)


def _column(rows: DataFrame, name: str) -> Column:
    return F.col(f"`{name}`") if name != "_record" or "_record" in rows.columns else F.lit(None)


def _aggregate_entrance(node: nodes.Aggregate, rows: DataFrame, shards: int) -> Entrance:
    calls = decomposed(rows, node.aggregates)
    arguments = [argument for call in calls.calls for argument in call.arguments]
    columns = [F.col(f"`{key}`").alias(key) for key in node.keys]
    columns += [argument.alias(f"__arg{number}") for number, argument in enumerate(arguments)]
    schema = rows.select(*columns).schema if columns else T.StructType()
    return Entrance(columns=tuple(columns), shard=_by(node.keys, shards), schema=schema, calls=calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What is known of a hosted step's ports: their numbers, and the columns of their rows."""

    ports: tuple[int, ...]
    entrances: tuple[Entrance, ...]

    @property
    def schemas(self) -> tuple[T.StructType, ...]:
        return tuple(one.schema for one in self.entrances)


LATE_ROW = T.StructType(
    [
        T.StructField("value", T.BinaryType()),
        T.StructField("behind", T.LongType()),  # event time, in microseconds
        T.StructField("port", T.IntegerType()),
    ]
)
"""A row that came too late, as the engine gives it."""


def late_opening() -> Opening:
    return Opening(columns=_named(LATE_ROW.names))


def host(node: nodes.Node, inputs: Inputs, *, updates: bool, finals: bool, each_change: bool) -> Hosted:
    """`updates`, `finals`: what is wanted of a window's results; `each_change`: of a table's, since steps follow."""
    match node:
        case nodes.MapRows():
            return _map_rows(node, inputs)
        case nodes.MapPandas():
            return _map_pandas(node)
        case nodes.Process():
            return _process(node, inputs)
        case nodes.Fold():
            return _fold(node, inputs, each_change=each_change)
        case nodes.Deduplicate():
            late = micros(delay(node.inputs[0]))
            step = Duplicates(_places(inputs.schemas[0], node.on), micros(node.within), late)
            return _same(step, inputs.schemas[0])
        case nodes.Aggregate():
            return _aggregate(node, inputs, updates=updates, finals=finals)
        case nodes.StreamJoin():
            return _stream_join(node, inputs)
        case nodes.StreamTableJoin():
            return _lookup(node, inputs)
        case nodes.TableTableJoin():
            return _table_join(node, inputs, each_change=each_change)
    raise AssertionError(f"{node.kind} is not hosted")


def _places(schema: T.StructType, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(schema.names.index(name) for name in names)


def _named(names: Sequence[str]) -> Callable[[], list[Column]]:
    return lambda: [F.col(f"`{name}`") for name in names]


def _same(step: Step, schema: T.StructType) -> Hosted:
    return Hosted(step=step, output=nullable_struct(schema), opening=Opening(columns=_named(schema.names)))


def _map_rows(node: nodes.MapRows, inputs: Inputs) -> Hosted:
    columns = struct_of(node.schema)
    carried = [inputs.schemas[0][name] for name in ("_key", "_time", "_record")]
    made = T.StructType(
        [T.StructField(f.name, f.dataType) for f in (*columns, *carried, T.StructField("_error", ERROR))]
    )
    function = RowByRow(node.function, columns.names, made, "UTC", flat=node.flat)
    output = nullable_struct(T.StructType([f for f in made if f.name not in ("_key", "_time")]))
    return Hosted(function=function, output=output, opening=Opening(columns=_named(output.names)))


def _map_pandas(node: nodes.MapPandas) -> Hosted:
    columns = nullable_struct(struct_of(node.schema))
    function = PieceByPiece(node.function, [*columns.names, "_key", "_time"])
    return Hosted(function=function, output=columns, opening=Opening(columns=_named(columns.names)))


def _process(node: nodes.Process, inputs: Inputs) -> Hosted:
    schema = inputs.schemas[0]
    waits = waits_for_time(node)
    plan = checked_plan(
        schema,
        node.keys,
        node.function,
        node.out,
        on_timer=node.on_timer,
        ttl=node.ttl,
        timers=node.timers,
        dead_letters=has_dead_letters(node),
        timed=True,
    )
    output = [*plan.out]
    if plan.dead_letters:
        output += [T.StructField("_record", schema["_record"].dataType), T.StructField("_error", ERROR)]
    struct = nullable_struct(T.StructType(output))
    has_records = not any(above.stateful for above in node.inputs[0].ancestry())
    step = ProcessStep(plan, late=micros(delay(node.inputs[0])), waits=waits, name=node.name, has_records=has_records)
    return Hosted(step=step, output=struct, opening=Opening(columns=_named(struct.names)))


def _fold(node: nodes.Fold, inputs: Inputs, *, each_change: bool) -> Hosted:
    schema = inputs.schemas[0]
    result = nullable_struct(struct_of(node.schema))
    function = Reducing(node.function, result.names) if node.reduces else node.function
    keys = [schema[key] for key in node.keys if key not in result.names]
    output = nullable_struct(T.StructType([*keys, *result]))
    step = FoldStep(node.keys, node.initial, function, schema, result, each_change=each_change)
    return Hosted(step=step, output=output, opening=Opening(columns=_named(output.names), changelog=True))


def _aggregate(node: nodes.Aggregate, inputs: Inputs, *, updates: bool, finals: bool) -> Hosted:
    entrance_ = inputs.entrances[0]
    calls = cast("Decomposed", entrance_.calls)
    keys = tuple(range(len(node.keys)))
    columns, begin = [], len(keys)
    for call in calls.calls:
        columns.append(tuple(range(begin, begin + len(call.arguments))))
        begin += len(call.arguments)
    kinds = [field.dataType for field in calls.results]
    aggregates = Aggregates(
        tuple(call.name for call in calls.calls),
        tuple(columns),
        tuple(kind.scale if isinstance(kind, T.DecimalType) else None for kind in kinds),
    )
    keyed = [entrance_.schema[key] for key in node.keys]
    if node.window is None:
        output = nullable_struct(T.StructType([*keyed, *calls.results]))
        opening = Opening(columns=lambda: [*_named(node.keys)(), *calls.columns], changelog=True)
        return Hosted(step=Totals(keys, aggregates), output=output, opening=opening)
    times = [T.StructField(name, T.TimestampType()) for name in WINDOW_COLUMNS]
    output = nullable_struct(T.StructType([*keyed, *times, *calls.results, T.StructField(FINAL, T.BooleanType())]))
    opening = Opening(columns=lambda: [*_named([*node.keys, *WINDOW_COLUMNS])(), *calls.columns], finals=True)
    return Hosted(
        step=_window_step(node, keys, aggregates, updates=updates, finals=finals), output=output, opening=opening
    )


def _window_step(
    node: nodes.Aggregate, keys: tuple[int, ...], aggregates: Aggregates, *, updates: bool, finals: bool
) -> Step:
    window = cast("Window", node.window)
    grace = micros(delay(node.inputs[0]) if window.grace is None else window.grace)
    size = micros(window.size)
    if window.kind == "sliding":
        return SlidingWindows(keys, aggregates, size, grace)
    if window.kind == "session":
        return Sessions(keys, aggregates, size, grace)
    return FixedWindows(keys, aggregates, size, micros(window.every), grace, updates=updates, finals=finals)


def _stream_join(node: nodes.StreamJoin, inputs: Inputs) -> Hosted:
    left, right = inputs.schemas
    mine, theirs = comparable_keys(node, inputs)
    step = StreamJoin(
        (inputs.ports[0], inputs.ports[1]),
        (_places(left, mine), _places(right, theirs)),
        (len(left), len(right)),
        how=node.how,
        before=micros(node.before),
        after=micros(node.after),
        late=micros(max(map(delay, node.inputs))),
    )
    sides = [T.StructField(f"__left{n}", f.dataType) for n, f in enumerate(left)]
    sides += [T.StructField(f"__right{n}", f.dataType) for n, f in enumerate(right)]
    places = {name: number for number, name in enumerate(right.names)}
    names = joined_names(left.names, right.names, node.on, node.suffix)

    def columns() -> list[Column]:
        made = []
        for number, name in enumerate(left.names):
            column = F.col(f"__left{number}")
            if name in node.on and node.how in ("right", "outer"):
                column = F.coalesce(column, F.col(f"__right{places[node.on[name]]}"))
            made.append(column.alias(name))
        return made + [F.col(f"__right{places[name]}").alias(as_) for name, as_ in names.items()]

    return Hosted(step=step, output=nullable_struct(T.StructType(sides)), opening=Opening(columns=columns))


def _lookup(node: nodes.StreamTableJoin, inputs: Inputs) -> Hosted:
    rows, table = inputs.schemas
    mine, theirs = comparable_keys(node, inputs)
    names = joined_names(rows.names, table.names, node.on, node.suffix)
    step = Lookup(
        (inputs.ports[0], inputs.ports[1]),
        (_places(rows, mine), _places(table, theirs)),
        _places(table, list(names)),
        left=node.how == "left",
        late=micros(delay(node.inputs[0])),
        as_of=node.as_of,
    )
    added = [T.StructField(as_, table[name].dataType) for name, as_ in names.items()]
    output = nullable_struct(T.StructType([*rows, *added]))
    return Hosted(step=step, output=output, opening=Opening(columns=_named(output.names)))


def _table_join(node: nodes.TableTableJoin, inputs: Inputs, *, each_change: bool) -> Hosted:
    left, right = inputs.schemas
    mine, theirs = comparable_keys(node, inputs)
    names = joined_names(left.names, right.names, node.on, node.suffix)
    own = [name for name in left.names if name not in mine]
    step = TableJoin(
        (inputs.ports[0], inputs.ports[1]),
        (_places(left, mine), _places(right, theirs)),
        (_places(left, own), _places(right, list(names))),
        cast("TableHow", node.how),
        each_change=each_change,
    )
    columns = [left[name] for name in (*mine, *own)]
    columns += [T.StructField(as_, right[name].dataType) for name, as_ in names.items()]
    output = nullable_struct(T.StructType(columns))
    return Hosted(step=step, output=output, opening=Opening(columns=_named(output.names), changelog=True))
