"""Event time: watermarks on `_time`, as Spark marks them in the metadata of the column, and its milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MARK = "spark.watermarkDelayMs"


def has_watermark(frame: DataFrame) -> bool:
    return MARK in frame.schema["_time"].metadata


def as_marked(frame: DataFrame, like: DataFrame) -> DataFrame:
    """`_time` counts as event time if it does in `like`: for steps that hand it on in a way that Spark cannot see."""
    mark = {MARK: like.schema["_time"].metadata[MARK]} if has_watermark(like) else {}
    return frame.withColumn("_time", F.col("_time").alias("_time", metadata=mark))


def alone_marked(frame: DataFrame) -> DataFrame:
    """No other column than `_time` counts as event time: Spark takes one."""
    others = [f.name for f in frame.schema if MARK in f.metadata and f.name != "_time"]
    return frame.withColumns({name: F.col(f"`{name}`").alias(name, metadata={}) for name in others})


def without_watermark(frame: DataFrame) -> DataFrame:
    """The rows no longer count as late; time goes on from where the watermark was set."""
    return frame.withColumn("_time", F.col("_time").alias("_time", metadata={}))


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds(time: datetime) -> int:
    return (time - EPOCH) // MILLISECOND
