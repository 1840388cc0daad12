"""Reads raw values, and lines of fields between separators."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from odradek.pipeline.formats.reading import Reading, Values, fault, first_fault, moment, once
from odradek.pipeline.formats.schemas import BadSchema

NESTED = (StructType, ArrayType, MapType, VariantType)


def raw_reading(*, text: bool) -> Reading:
    """Columns `key` and `value` without decoding: bytes, or text in UTF-8."""
    data_type = StringType() if text else BinaryType()
    return Reading(
        columns=StructType([StructField("key", data_type), StructField("value", data_type)]),
        read=lambda: F.struct(F.col("key").cast(data_type).alias("key"), F.col("value").cast(data_type).alias("value")),
        value=lambda read, field: read[field.name],
        fault=lambda read, _: _not_text(read) if text else first_fault([]),
        null_value_is_fine=True,
    )


def _not_text(read: Column) -> Column:
    return first_fault(
        [
            F.when(~F.is_valid_utf8(read[part]), fault("NotText", f"the {part} is not UTF-8"))
            for part in ("key", "value")
        ]
    )


def delimited_reading(struct: StructType, separator: str) -> Reading:
    """One field per column, in their order. An empty field is null, and the line may end with a separator."""
    for field in struct:
        if isinstance(field.dataType, NESTED):
            raise BadSchema(f"field {field.name}: a delimited line has no place for {field.dataType.simpleString()}")

    places = {field.name: F.lit(index) for index, field in enumerate(struct)}
    return Reading(
        columns=struct,
        read=lambda: F.split(F.col("value").cast("string"), re.escape(separator)),
        value=lambda parts, field: once(_value(F.get(parts, places[field.name]), field)),
        fault=lambda parts, values: _line_fault(parts, values, struct, separator),
    )


def _value(part: Column, field: StructField) -> Column:
    text = F.nullif(part, F.lit(""))
    match field.dataType:
        case StringType():
            return text
        case TimestampType():
            return moment(text, StringType())
        case BinaryType():
            return text.cast("binary")
    return F.trim(text).try_cast(field.dataType)


def _line_fault(parts: Column, values: Values, struct: StructType, separator: str) -> Column:
    wanted = len(struct)
    count = F.size(parts) - F.when(F.element_at(parts, -1) == "", 1).otherwise(0)
    wrong_count = (F.size(parts) != wanted) & (count != wanted)
    too_many = fault(
        "WrongFieldCount", count.cast("string"), f" fields between '{separator}', and the schema has {wanted}"
    )
    faults = [F.when(wrong_count, too_many)]
    for index, field in enumerate(struct):
        text, nothing = F.get(parts, F.lit(index)), values(field.name).isNull()
        wrong = fault("WrongType", f"field {field.name}: '", text, f"' is not {field.dataType.simpleString()}")
        faults.append(F.when(nothing & (text != ""), wrong))
        if not field.nullable:
            faults.append(F.when(nothing, fault("MissingField", f"required field {field.name} is missing or null")))
    return first_fault(faults)
