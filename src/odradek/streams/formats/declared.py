"""The columns of a declared schema as text, (name, type), without a JVM: for telling one schema from another.

A DDL string is only taken apart, not checked: what Spark cannot read it refuses itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType

from odradek.streams.formats.kinds import Format, columns_of
from odradek.streams.formats.schemas import struct_of

Columns = tuple[tuple[str, str], ...]

SPELLINGS = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s:]+))\s*:?\s*(?P<type>.*)", re.DOTALL)
_BESIDES = re.compile(r"\s+(not\s+null|comment\s|default\s).*", re.DOTALL)


def declared_columns(schema: Any, format: Format | str | None = None) -> Columns:  # noqa: A002, ANN401 whatever formats take
    """Those of a topic when a format is given, else those of rows that a function makes."""
    if isinstance(schema, str) and not schema.lstrip().startswith("{") and not schema.endswith(".avsc"):
        return tuple(map(_column, _parts(schema)))
    return columns_in(struct_of(schema) if format is None else columns_of(format, schema))


def columns_in(struct: StructType) -> Columns:
    return tuple((f.name, f.dataType.simpleString().lower()) for f in struct)


def _column(text: str) -> tuple[str, str]:
    found = _COLUMN.fullmatch(text)
    if found is None:
        return text.strip(), ""
    name = found["quoted"].replace("``", "`") if found["quoted"] else found["plain"]
    return name, _type(found["type"])


def _type(text: str) -> str:
    lower = _BESIDES.sub("", " ".join(text.lower().split()))
    tight = re.sub(r"\s*([<>:,()])\s*", r"\1", lower)
    same = re.sub(r"[a-z_]+", lambda word: SPELLINGS.get(word[0], word[0]), tight)
    return re.sub(r"\bdecimal\b(?!\()", "decimal(10,0)", same)


def _parts(ddl: str) -> Iterator[str]:
    """Between the commas that are inside no brackets."""
    depth = begin = 0
    for position, letter in enumerate(ddl):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield ddl[begin:position]
            begin = position + 1
    yield ddl[begin:]
