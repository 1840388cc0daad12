"""Watermarks on `_time`, as Spark marks them: in the metadata of the column."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MARK = "spark.watermarkDelayMs"


def has_watermark(frame: DataFrame) -> bool:
    return MARK in frame.schema["_time"].metadata


def without_watermark(frame: DataFrame) -> DataFrame:
    """The rows no longer count as late; time goes on from where the watermark was set."""
    return frame.withColumn("_time", F.col("_time").alias("_time", metadata={}))
