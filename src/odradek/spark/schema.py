"""The columns of a topic: the columns of Spark's Kafka connector, and `position`."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)


def spark_schema(include_headers: bool, include_position: bool = False) -> StructType:
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
    if include_position:
        schema.add("position", BinaryType(), nullable=False)
    return schema
