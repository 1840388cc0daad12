"""Where frames begin: topics through the data source, DataFrames from outside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.pipeline import formats
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import markers_of
from odradek.streams.compile.context import Context, Place
from odradek.streams.compile.event_time import MILLISECOND, alone_marked, has_watermark
from odradek.streams.graph.columns import HEADERS
from odradek.streams.graph.expressions import column_of
from odradek.streams.graph.nodes import Frame, SchemaOf, Sql, StaticFrame, Topic

KAFKA_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}

AT_LEAST = "minOffsetsPerTrigger"
PACKED_RECORDS = 5_000
"""Of several partitions, read by one task: a task costs as much as reading a few thousand records."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topic(node: Topic, context: Context) -> DataFrame:
    raw = _no_records(node, context) if context.dry else _records(node, context)
    if not context.dry and (place := context.place_of(node)) is not None and place.tick is not None:
        # a tick is no record, and no format may leave it out as one without a value
        raw = raw.withColumn("value", F.when(F.col("partition") < 0, F.lit(b"")).otherwise(F.col("value")))
    schema = context.schema_of(node.schema.node) if isinstance(node.schema, SchemaOf) else node.schema
    if node.table_key:
        return formats.changelog(node.format, schema, node.table_key, node.time)(raw)
    rows = formats.parsing(node.format, schema, node.time)(raw)
    if node.headers:
        rows = rows.withColumn(HEADERS, F.col("_record.headers"))
    if node.topic_as is not None:
        rows = rows.withColumn(node.topic_as, F.col("_record.topic"))
    if "_deleted" not in rows.columns:
        return rows
    return rows.where(F.col("_error").isNotNull() | ~F.col("_deleted")).drop("_deleted")


def _records(node: Topic, context: Context) -> DataFrame:
    settings = context.settings
    reader = (
        context.spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option(*_selection(node, context.group))
        .option("startingOffsets", node.start)
        .option("kafka.group.id", context.group)
        .option("includeHeaders", "true" if node.dlq is not None or node.headers or context.records else "false")
    )
    for name, value in settings.config.items():
        reader = reader.option(f"kafka.{name}", value)
    reader = reader.options(**node.options)
    if (place := context.place_of(node)) is not None:
        reader = reader.options(**ordered(node, place))
    return reader.load()


def ordered(node: Topic, place: Place) -> dict[str, str]:
    """Options for records in the canonical order, a bounded number of them at a time."""
    options = {"includePosition": "true", "positionRank": str(place.rank), "packRecords": str(PACKED_RECORDS)}
    if place.tick is not None:
        options["tickEvery"] = str(place.tick // MILLISECOND)
    if AT_LEAST in node.options:  # such a source does not wait for others
        most = max(place.records, int(node.options[AT_LEAST]))
        return {"maxOffsetsPerTrigger": str(most), **node.options, **options}
    # the topics that a source reads are aligned in any case: where there is a pattern alone, it stands for them
    aligned = place.topics or (str(node.pattern),)
    return options | {"maxOffsetsPerTrigger": str(place.records), "alignTopics": ",".join(aligned)}


def _selection(node: Topic, group: str) -> tuple[str, str]:
    """The source looks for a pattern anywhere in a name; here it is the whole name.

    A query that read its own markers would write a marker for each that it reads.
    """
    if node.pattern is None:
        return "subscribe", ",".join(node.topics)
    return "subscribePattern", rf"\A(?!{re.escape(markers_of(group))}\Z)(?:{node.pattern})\Z"


def _no_records(node: Topic, context: Context) -> DataFrame:
    """A stream with the columns of records."""
    columns = KAFKA_COLUMNS | ({} if context.place_of(node) is None else {"position": "binary"})
    empty = context.spark.readStream.format("rate").load()
    return empty.select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))


def from_outside(node: Frame, context: Context) -> DataFrame:
    frame = _made(node.frame, context.spark)
    if not frame.isStreaming:
        raise PipelineError(
            f"{node.name} is a batch DataFrame, not a stream",
            instead="app.static(...), to join streams with",
            origin=node.origin,
        )
    if node.time is not None:
        frame = frame.withColumn("_time", column_of(node.time))
    return _with_reserved(alone_marked(frame))


def static(node: StaticFrame, context: Context) -> DataFrame:
    frame = _made(node.frame, context.spark)
    if frame.isStreaming:
        raise PipelineError(f"{node.name} is a stream", instead="app.from_df(...)", origin=node.origin)
    return frame


def _made(frame: object, spark: SparkSession) -> DataFrame:
    return frame(spark) if callable(frame) else frame  # type: ignore[return-value]


def queried(node: Sql, inputs: list[DataFrame], context: Context) -> DataFrame:
    spark = context.spark
    for view, rows in zip(node.views, inputs, strict=True):
        rows.createOrReplaceTempView(view)
    result = spark.sql(node.query)
    for view in node.views:
        spark.catalog.dropTempView(view)
    return _with_reserved(result)


def _with_reserved(rows: DataFrame) -> DataFrame:
    """Adds `_key` and `_time` if they are missing. The default of `_time` is the processing time."""
    if "_key" not in rows.columns:
        rows = rows.withColumn("_key", F.lit(None).cast("binary"))
    if "_time" not in rows.columns:
        return rows.withColumn("_time", F.current_timestamp())
    if has_watermark(rows):
        return rows
    return rows.withColumn("_time", F.coalesce(F.col("_time").cast("timestamp"), F.current_timestamp()))
