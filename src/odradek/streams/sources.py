"""Where frames begin: topics through the data source, DataFrames from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.streams import formats
from odradek.streams.errors import PipelineError
from odradek.streams.expressions import column_of
from odradek.streams.graph import Frame, Sql, StaticFrame, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.streams.compiling import Compilation


def read_topic(node: Topic, compilation: Compilation) -> DataFrame:
    settings = compilation.settings
    reader = (
        compilation.spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", node.topic)
        .option("startingOffsets", node.start)
        .option("kafka.group.id", compilation.group)
        .option("includeHeaders", "true" if node.dlq is not None or node.format == "raw" else "false")
    )
    for name, value in settings.config.items():
        reader = reader.option(f"kafka.{name}", value)
    raw = reader.options(**node.options).load()
    if "headers" not in raw.columns:
        raw = raw.withColumn("headers", F.lit(None).cast("array<struct<key:string,value:binary>>"))
    return formats.parsing(node.format, node.schema, node.time)(raw)


def from_outside(node: Frame, compilation: Compilation) -> DataFrame:
    frame = _made(node.frame, compilation.spark)
    if not frame.isStreaming:
        raise PipelineError(
            f"{node.name} is a batch DataFrame, not a stream",
            instead="app.static(...), to join streams with",
            origin=node.origin,
        )
    time = F.lit(None) if node.time is None else column_of(node.time)
    if node.time is None and "_time" in frame.columns:
        time = F.col("_time")
    key = F.col("_key") if "_key" in frame.columns else F.lit(None)
    return frame.withColumns({"_key": key.cast("binary"), "_time": time.cast("timestamp")})


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
    missing = {"_key": F.lit(None).cast("binary"), "_time": F.lit(None).cast("timestamp")}
    return result.withColumns({name: column for name, column in missing.items() if name not in result.columns})
