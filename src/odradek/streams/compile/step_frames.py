"""What each kind of node does to DataFrames: the table `STEPS`, and the steps that are a line or two."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from odradek.pipeline.formats import key_bytes
from odradek.pipeline.formats.schemas import struct_of
from odradek.streams.compile import state
from odradek.streams.compile.aggregate_frames import aggregated
from odradek.streams.compile.context import Context
from odradek.streams.compile.join_frames import join_static, join_streams, join_tables, look_up
from odradek.streams.compile.python_rows import Reducing, map_pandas, map_rows, with_record
from odradek.streams.compile.sources import from_outside, queried, read_topic, static
from odradek.streams.graph import nodes
from odradek.streams.graph.column_names import check_keys
from odradek.streams.graph.columns import CARRIED
from odradek.streams.graph.expressions import column_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def step(node: nodes.Node, inputs: list[DataFrame], context: Context) -> DataFrame:
    for side, rows in enumerate(inputs):
        check_keys(node, side, [name for name in rows.columns if name not in CARRIED])
    return STEPS[type(node)](node, inputs, context)


def filtered(node: nodes.Filter, rows: DataFrame) -> DataFrame:
    condition = column_of(node.condition)
    if "_deleted" not in rows.columns:
        return rows.where(condition)
    # in a changelog a row that is no longer accepted must take back what was said about its key before
    return rows.withColumn("_deleted", F.col("_deleted") | ~F.coalesce(condition, F.lit(False)))


def selected(node: nodes.Select, rows: DataFrame) -> DataFrame:
    columns = [column_of(column) for column in node.columns]
    chosen = rows.select(*columns).columns
    return rows.select(*columns, *(name for name in CARRIED if name in rows.columns and name not in chosen))


def with_columns(node: nodes.WithColumns, rows: DataFrame) -> DataFrame:
    return rows.withColumns({name: column_of(value) for name, value in node.columns.items()})


def rekeyed(node: nodes.Rekey, rows: DataFrame) -> DataFrame:
    return rows.withColumn("_key", key_bytes(rows.schema, node.key))


def merged(inputs: list[DataFrame]) -> DataFrame:
    if any("_record" in rows.columns for rows in inputs):
        inputs = [with_record(rows) for rows in inputs]
    return functools.reduce(lambda one, other: one.unionByName(other), inputs)


def changes(rows: DataFrame) -> DataFrame:
    return rows.where(~F.col("_deleted")).drop("_deleted") if "_deleted" in rows.columns else rows


def folded(node: nodes.Fold, rows: DataFrame) -> DataFrame:
    columns = struct_of(node.schema)
    function = Reducing(node.function, columns.names) if node.reduces else node.function
    return state.fold(rows.drop("_record"), node.keys, node.initial, function, columns)


def processed(node: nodes.Process, rows: DataFrame) -> DataFrame:
    dead_letters = node.dlq is not None or node.on_error == "skip"
    rows = with_record(rows) if dead_letters else rows
    return state.process(
        rows,
        node.keys,
        node.function,
        node.out,
        on_timer=node.on_timer,
        ttl=node.ttl,
        timers=node.timers,
        dead_letters=dead_letters,
    )


STEPS: Mapping[type[nodes.Node], Callable[[Any, list[DataFrame], Context], DataFrame]] = {
    nodes.Topic: lambda node, _, context: read_topic(node, context),
    nodes.Frame: lambda node, _, context: from_outside(node, context),
    nodes.StaticFrame: lambda node, _, context: static(node, context),
    nodes.Sql: queried,
    nodes.Filter: lambda node, inputs, _: filtered(node, *inputs),
    nodes.Select: lambda node, inputs, _: selected(node, *inputs),
    nodes.WithColumns: lambda node, inputs, _: with_columns(node, *inputs),
    nodes.Drop: lambda node, inputs, _: inputs[0].drop(*node.columns),
    nodes.Rekey: lambda node, inputs, _: rekeyed(node, *inputs),
    nodes.ToStream: lambda _, inputs, __: changes(*inputs),
    nodes.Merge: lambda _, inputs, __: merged(inputs),
    nodes.MapRows: lambda node, inputs, _: map_rows(node, *inputs),
    nodes.MapPandas: lambda node, inputs, _: map_pandas(node, *inputs),
    nodes.Deduplicate: lambda node, inputs, _: inputs[0].dropDuplicatesWithinWatermark(list(node.on)),
    nodes.Aggregate: lambda node, inputs, context: aggregated(node, inputs[0], context.grace),
    nodes.Fold: lambda node, inputs, _: folded(node, *inputs),
    nodes.Process: lambda node, inputs, _: processed(node, *inputs),
    nodes.StaticJoin: lambda node, inputs, _: join_static(node, *inputs),
    nodes.StreamJoin: lambda node, inputs, _: join_streams(node, *inputs),
    nodes.StreamTableJoin: lambda node, inputs, _: look_up(node, *inputs),
    nodes.TableTableJoin: lambda node, inputs, _: join_tables(node, *inputs),
}
