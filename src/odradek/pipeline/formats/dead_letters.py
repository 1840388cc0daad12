"""Dead letters: records that failed, unchanged, with headers for the error, the step, and the place of the record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# Kafka Streams' names, so that its tools recognise them.
HEADER = "__streams.errors."


def dead_letters(rows: DataFrame, step: str) -> DataFrame:
    """Sink rows for the failed `rows`, which have the columns `_error` and `_record`. `step`: where they failed."""
    return rows.where(F.col("_error").isNotNull()).select(*letter_columns(step))


def letter_columns(step: str) -> list[Column]:
    """The columns of a dead letter, made from `_error` and `_record`. The record's own headers come first."""
    error, record = F.col("_error"), F.col("_record")
    told = {
        "exception": error["exception"],
        "stacktrace": error["stacktrace"],
        "message": error["message"],
        "step": F.lit(step),
        "topic": record["topic"],
        "partition": record["partition"],
        "offset": record["offset"],
    }
    headers = F.filter(
        F.concat(
            F.coalesce(record["headers"], F.array().cast("array<struct<key:string,value:binary>>")),
            F.array(*(_header(name, value) for name, value in told.items())),
        ),
        # the record's own headers may have null values; our headers are left out when they are null
        lambda header: header["value"].isNotNull() | ~header["key"].startswith(HEADER),
    )
    return [record["key"].alias("key"), record["value"].alias("value"), headers.alias("headers")]


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(HEADER + name).alias("key"), value.cast("string").cast("binary").alias("value"))
