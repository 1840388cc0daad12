"""The columns of a topic, exactly those of Spark's Kafka connector, for Spark and for Arrow."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
TIMESTAMP = pa.timestamp("us", tz="UTC")


def spark_schema(include_headers: bool) -> StructType:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructType,
        TimestampType,
    )

    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        schema.add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
    return schema


@cache
def arrow_schema(include_headers: bool) -> pa.Schema:
    fields: list[tuple[str, pa.DataType]] = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
    return pa.schema(fields + [("headers", HEADERS)] if include_headers else fields)
