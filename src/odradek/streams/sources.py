"""Where frames begin: topics through the data source, DataFrames from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from odradek.streams import formats
from odradek.streams.errors import PipelineError
from odradek.streams.event_time import alone_marked, has_watermark
from odradek.streams.expressions import column_of
from odradek.streams.nodes import Frame, Node, SchemaOf, Sql, StaticFrame, Topic
from odradek.streams.rows import CARRIED

KAFKA_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.streams.compiling import Compilation


def read_topic(node: Topic, compilation: Compilation) -> DataFrame:
    raw = _no_records(compilation.spark) if compilation.dry else _records(node, compilation)
    schema = _schema_of(node.schema.node, compilation) if isinstance(node.schema, SchemaOf) else node.schema
    if node.table_key:
        return formats.changelog(node.format, schema, node.table_key, node.time)(raw)
    rows = formats.parsing(node.format, schema, node.time)(raw)
    if "_deleted" not in rows.columns:
        return rows
    return rows.where(F.col("_error").isNotNull() | ~F.col("_deleted")).drop("_deleted")


def _records(node: Topic, compilation: Compilation) -> DataFrame:
    settings = compilation.settings
    reader = (
        compilation.spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", node.topic)
        .option("startingOffsets", node.start)
        .option("kafka.group.id", compilation.group)
        .option("includeHeaders", "true" if node.dlq is not None or compilation.records else "false")
    )
    for name, value in settings.config.items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.options(**node.options).load()


def _no_records(spark: SparkSession) -> DataFrame:
    """A stream with the columns of records."""
    empty = spark.readStream.format("rate").load()
    return empty.select(*(F.lit(None).cast(kind).alias(name) for name, kind in KAFKA_COLUMNS.items()))


def _schema_of(node: Node, compilation: Compilation) -> StructType:
    from odradek.streams.compiling import Compilation

    dry = Compilation(compilation.spark, compilation.settings, compilation.group, node, dry=True).frame(node)
    return StructType([StructField(f.name, f.dataType) for f in dry.schema if f.name not in CARRIED])


def from_outside(node: Frame, compilation: Compilation) -> DataFrame:
    frame = _made(node.frame, compilation.spark)
    if not frame.isStreaming:
        raise PipelineError(
            f"{node.name} is a batch DataFrame, not a stream",
            instead="app.static(...), to join streams with",
            origin=node.origin,
        )
    if node.time is not None:
        frame = frame.withColumn("_time", column_of(node.time))
    return _with_reserved(alone_marked(frame))


def static(node: StaticFrame, compilation: Compilation) -> DataFrame:
    frame = _made(node.frame, compilation.spark)
    if frame.isStreaming:
        raise PipelineError(f"{node.name} is a stream", instead="app.from_df(...)", origin=node.origin)
    return frame


def _made(frame: object, spark: SparkSession) -> DataFrame:
    return frame(spark) if callable(frame) else frame  # type: ignore[return-value]


def queried(node: Sql, inputs: list[DataFrame], compilation: Compilation) -> DataFrame:
    spark = compilation.spark
    for view, rows in zip(node.views, inputs, strict=True):
        rows.createOrReplaceTempView(view)
    result = spark.sql(node.query)
    for view in node.views:
        spark.catalog.dropTempView(view)
    return _with_reserved(result)


def _with_reserved(rows: DataFrame) -> DataFrame:
    """With `_key` and `_time`: where nobody says when a row happened, it is when it was processed."""
    if "_key" not in rows.columns:
        rows = rows.withColumn("_key", F.lit(None).cast("binary"))
    if "_time" not in rows.columns:
        return rows.withColumn("_time", F.current_timestamp())
    if has_watermark(rows):
        return rows
    return rows.withColumn("_time", F.coalesce(F.col("_time").cast("timestamp"), F.current_timestamp()))
