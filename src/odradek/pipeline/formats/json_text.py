"""JSON, read with Spark's parser and stricter checks.

By default from_json returns null for a wrong type, and drops anything after the first object. Here each of these is a
fault. Unknown fields are ignored, and a text column takes any JSON value as its text.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from odradek.pipeline.formats.reading import (
    Reading,
    Values,
    column_value,
    fault,
    first_fault,
    struct_faults,
    wire_struct,
)

WHITESPACE = " \t\r\n"
CORRUPT = "_corrupt"
READ_OPTIONS = {"columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false", "timeZone": "UTC"}
# Times have microseconds and are in UTC. A null is written as null, so that readers can tell it from a missing column.
WRITE_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC", "ignoreNullFields": "false"}


def json_reading(struct: StructType) -> Reading:
    return Reading(
        columns=struct,
        read=lambda: read_json(F.col("value"), struct),
        value=column_value,
        fault=lambda read, values: json_fault(read, struct, values),
    )


def read_json(value: Column, struct: StructType) -> Column:
    """The wire form of a JSON object, or null if the value is not one. `CORRUPT` has the text if it does not fit."""
    text = value.cast("string")
    trimmed = F.btrim(text, F.lit(WHITESPACE))
    one_object = _braced(text) | _braced(trimmed)  # most values need no trimming
    # Spark reads the first object and drops the rest. Inside [ ], two objects are a syntax error. That check costs a
    # second parse, so only texts in which an object seems to follow another are checked.
    follows = text.contains("}{") | text.contains("}\n{")
    second = follows & F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))).isNull()
    wire = StructType([*wire_struct(struct), StructField(CORRUPT, StringType())])
    return F.when(one_object & F.is_valid_utf8(text) & ~second, F.from_json(text, wire, READ_OPTIONS))


def json_fault(read: Column, struct: StructType, values: Values) -> Column:
    return first_fault([unfitting(read, struct), *struct_faults(read, struct, values=values)])


def unfitting(read: Column, struct: StructType, *more: Column) -> Column:
    """The fault of a text that is not a JSON object, or does not fit the types of the schema."""
    return F.when(read.isNull(), fault("NotJson", "the value is not one JSON object in UTF-8")).when(
        read[CORRUPT].isNotNull(),
        F.coalesce(
            F.when(F.try_parse_json(read[CORRUPT]).isNull(), fault("NotJson", "the value is not valid JSON")),
            *more,
            *misfits(read, struct, lambda name: F.get_json_object(read[CORRUPT], f"$['{name}']")),
            fault("WrongType", f"a field inside does not fit {struct.simpleString()}"[:500]),
        ),
    )


def misfits(row: Column, struct: StructType, text_of: Callable[[str], Column], path: str = "") -> list[Column]:
    """Faults of fields that did not fit: such a field is present in the text, but null in the result."""
    return [
        F.when(
            row[field.name].isNull() & text.isNotNull(),
            fault("WrongType", f"field {path}{field.name}: ", F.substring(text, 1, 100), f" is not {_spoken(field)}"),
        )
        for field in struct
        for text in [text_of(field.name)]
    ]


def _spoken(field: StructField) -> str:
    return field.dataType.simpleString()


def _braced(text: Column) -> Column:
    return text.startswith("{") & text.endswith("}")
