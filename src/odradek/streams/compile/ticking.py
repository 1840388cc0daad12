"""Event time from outside: a test lets time pass though no event comes.

Spark knows the time from rows alone. Each line of a file in the directory of a query is a row with a time and no more:
it joins the stream before the watermark is taken and leaves it right after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.pipeline.formats.reading import once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def tick_times(spark: SparkSession, ticks: str) -> DataFrame:
    """The times that a test lets pass, as they come: `_time` alone."""
    return spark.readStream.text(ticks).select(F.col("value").cast("timestamp").alias("_time"))


def watermarked(rows: DataFrame, delay: str, ticks: str) -> DataFrame:
    ticks_alone = tick_times(rows.sparkSession, ticks).withColumn("_tick", F.lit(True))
    ticking = rows.unionByName(ticks_alone, allowMissingColumns=True).withWatermark("_time", delay)
    # Spark moves conditions below the watermark: this one, and conditions of joins, such as "the key is not null".
    # Then no tick would reach it. Nothing is moved past a condition that seems to be non-deterministic.
    return ticking.where(once(F.col("_tick").isNull())).drop("_tick")
