"""Values without structure, and lines of fields between separators."""

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

from odradek.streams.formats.reading import Reading, fault, field_value, first_fault, struct_faults
from odradek.streams.formats.schemas import BadSchema

NESTED = (StructType, ArrayType, MapType, VariantType)


def raw_reading(*, text: bool) -> Reading:
    """Columns `key` and `value` as they came: bytes, or text in UTF-8."""
    data_type = StringType() if text else BinaryType()
    return Reading(
        columns=StructType([StructField("key", data_type), StructField("value", data_type)]),
        read=lambda: F.struct(F.col("key").cast(data_type).alias("key"), F.col("value").cast(data_type).alias("value")),
        value=lambda read, field: read[field.name],
        fault=lambda read: _not_text(read) if text else first_fault([]),
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
    """One field per column in their order; an empty field is null, and the line may end with a separator."""
    for field in struct:
        if isinstance(field.dataType, NESTED):
            raise BadSchema(f"field {field.name}: a delimited line has no place for {field.dataType.simpleString()}")

    def read() -> Column:
        parts = F.split(F.col("value").cast("string"), re.escape(separator))
        return F.struct(parts.alias("parts"), *(_part(parts, i, f).alias(f.name) for i, f in enumerate(struct)))

    return Reading(columns=struct, read=read, value=field_value, fault=lambda r: _line_fault(r, struct, separator))


def _part(parts: Column, index: int, field: StructField) -> Column:
    text = F.nullif(F.get(parts, F.lit(index)), F.lit(""))
    if isinstance(field.dataType, StringType | TimestampType):
        return text  # a time is converted as in all text formats
    return text.cast("binary") if isinstance(field.dataType, BinaryType) else F.trim(text).try_cast(field.dataType)


def _line_fault(read: Column, struct: StructType, separator: str) -> Column:
    parts, wanted = read["parts"], len(struct)
    count = F.size(parts) - F.when(F.element_at(parts, -1) == "", 1).otherwise(0)
    wrong_count = (F.size(parts) != wanted) & (count != wanted)
    too_many = fault(
        "WrongFieldCount", count.cast("string"), f" fields between '{separator}', and the schema has {wanted}"
    )
    misfits = [
        F.when(
            read[field.name].isNull() & (text != ""),
            fault("WrongType", f"field {field.name}: '", text, f"' is not {field.dataType.simpleString()}"),
        )
        for index, field in enumerate(struct)
        for text in [F.get(parts, F.lit(index))]
    ]
    return first_fault([F.when(wrong_count, too_many), *misfits, *struct_faults(read, struct)])
