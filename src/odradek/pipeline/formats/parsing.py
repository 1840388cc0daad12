"""Converts raw records to columns, and keeps the error of each record that cannot be converted.

Input: the raw columns of the source. Output: the schema's columns, `_key` (the record's key), `_time` (event time),
`_error` (null, or why the record could not be converted) and `_record` (the raw record, for dead letters). Changes of a
table also have `_deleted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.formats.keys import key_columns
from odradek.pipeline.formats.kinds import AnySchema, Format, reading_of
from odradek.pipeline.formats.reading import Reading, fault, first_fault, moment, once
from odradek.pipeline.formats.schemas import BadSchema

RAW = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
ERROR_TYPE = "struct<exception:string,message:string,stacktrace:string>"
TIMES = (TimestampType, TimestampNTZType, DateType, LongType, IntegerType, StringType)

Parse = Callable[[DataFrame], DataFrame]


def parsing(format: Format | str, schema: AnySchema, time: str | None = None) -> Parse:  # noqa: A002
    """Records as rows of a stream. A record without a value is an error, except for raw."""

    def parse(raw: DataFrame) -> DataFrame:
        reading = reading_of(format, schema)
        if reading.deleted is not None:  # after a deletion Debezium sends a record without a value, for compaction
            raw = raw.where(F.col("value").isNotNull())
        return _parsed(raw, reading, time, deleted=reading.deleted)

    return parse


def changelog(format: Format | str, schema: AnySchema, key: Sequence[str], time: str | None = None) -> Parse:  # noqa: A002
    """Records as changes of a table: a null value deletes the row of its key.

    Key columns that the value does not have are taken from the record's key: text or bytes for one column, a JSON
    object for several, as `key_bytes` writes them. Debezium's keys are also supported.
    """

    def parse(raw: DataFrame) -> DataFrame:
        reading = reading_of(format, schema, optional=key)
        for name in key:
            if name not in reading.columns.names:
                raise BadSchema(f"the key column {name!r} is none of {', '.join(reading.columns.names)}")
        return _parsed(raw, reading, time, deleted=reading.deleted or (lambda _: F.lit(False)), key=key)

    return parse


def _parsed(
    raw: DataFrame,
    reading: Reading,
    time: str | None,
    *,
    deleted: Callable[[Column], Column] | None,
    key: Sequence[str] = (),
) -> DataFrame:
    record, read = F.col("_record"), F.col("_read")
    columns = {field.name: reading.value(read, field) for field in reading.columns}
    if key:
        from_key = key_columns(record["key"], StructType([reading.columns[name] for name in key]))
        columns |= {name: once(F.coalesce(columns[name], from_key[name])) for name in key}
    made = raw.select(_record(raw).alias("_record"), once(reading.read()).alias("_read")).select(
        *(column.alias(name) for name, column in columns.items()),
        _moment(columns, reading, time, read).alias("_moment"),
        "_read",
        "_record",
    )
    empty, told = record["value"].isNull(), _told(reading, time)
    wrong = reading.fault(read, _named)
    faults = [wrong] if reading.null_value_is_fine else [F.when(~empty, wrong), *([] if key else [_no_value(empty)])]
    faults += [_no_key(name) for name in key]
    faults += [] if time is None else [F.when(~empty & told.isNull(), _no_time(time))]
    return made.select(
        *map(_named, columns),
        record["key"].alias("_key"),
        (F.coalesce(told, record["timestamp"]) if time is None or key else told).alias("_time"),
        *([] if deleted is None else [(empty | F.coalesce(deleted(read), F.lit(False))).alias("_deleted")]),
        _error(first_fault(faults)).alias("_error"),
        record,
    )


def _record(raw: DataFrame) -> Column:
    headers = F.col("headers") if "headers" in raw.columns else F.lit(None).cast(HEADERS_TYPE)
    position = ["position"] if "position" in raw.columns else []
    return F.struct(*RAW, headers.alias("headers"), *position)


def _moment(columns: dict[str, Column], reading: Reading, time: str | None, read: Column) -> Column:
    """The event time if it must be converted from another type or comes from the format; else null."""
    if time is None and reading.time is not None:
        return reading.time(read)
    if time is None or _is_time(field := _time_field(reading.columns, time)):
        return F.lit(None).cast("timestamp")
    return once(moment(columns[time], field.dataType))


def _told(reading: Reading, time: str | None) -> Column:
    """The event time from the value."""
    if time is not None and _is_time(reading.columns[time]):
        return moment(_named(time).cast("timestamp"), TimestampType())
    return F.col("_moment")


def _is_time(field: StructField) -> bool:
    return isinstance(field.dataType, TimestampType | TimestampNTZType | DateType)


def _named(name: str) -> Column:
    return F.col(f"`{name}`")


def _time_field(struct: StructType, time: str) -> StructField:
    if time not in struct.names:
        raise BadSchema(f"the time column {time!r} is none of {', '.join(struct.names)}")
    field = struct[time]
    if not isinstance(field.dataType, TIMES):
        raise BadSchema(
            f"the time column {time!r} is {field.dataType.simpleString()}",
            instead="a timestamp, epoch milliseconds as a whole number, or ISO 8601 text",
        )
    return field


def _no_value(empty: Column) -> Column:
    return F.when(
        empty, fault("NoValue", "the record has no value: that is a deletion in a table, but an error in a stream")
    )


def _no_key(name: str) -> Column:
    why = fault("NoKey", f"key column {name} is neither in the value nor in the record's key")
    return F.when(_named(name).isNull(), why)


def _no_time(time: str) -> Column:
    text = F.coalesce(_named(time).cast("string"), F.lit("null"))
    return fault(
        "NoTime", f"time column {time}: ", text, " is neither ISO 8601 nor epoch milliseconds before year 10000"
    )


def _error(found: Column) -> Column:
    error = F.struct(
        found["exception"].alias("exception"), found["message"].alias("message"), F.lit(None).alias("stacktrace")
    )
    return F.when(found.isNotNull(), error.cast(ERROR_TYPE))
