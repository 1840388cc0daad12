"""The columns of a declared schema as text, (name, type), without a JVM: to compare schemas.

A DDL string is only split, not checked: Spark itself refuses what it cannot read.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql.types import StructType

from odradek.pipeline.formats.ddl import columns_of_ddl
from odradek.pipeline.formats.kinds import Format, columns_of
from odradek.pipeline.formats.schemas import is_avro_text, struct_of

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
_BESIDES = re.compile(r"\s+(not\s+null|comment\s|default\s).*", re.DOTALL)


def declared_columns(schema: Any, format: Format | str | None = None) -> Columns:  # noqa: A002, ANN401 whatever formats take
    """The columns of a topic when a format is given, else the columns of rows that a function returns."""
    if isinstance(schema, str) and not is_avro_text(schema):
        return tuple((name, _type(kind)) for name, kind in columns_of_ddl(schema))
    return columns_in(struct_of(schema) if format is None else columns_of(format, schema))


def columns_in(struct: StructType) -> Columns:
    return tuple((f.name, f.dataType.simpleString().lower()) for f in struct)


def _type(text: str) -> str:
    lower = _BESIDES.sub("", " ".join(text.lower().split()))
    tight = re.sub(r"\s*([<>:,()])\s*", r"\1", lower)
    same = re.sub(r"[a-z_]+", lambda word: SPELLINGS.get(word[0], word[0]), tight)
    return re.sub(r"\bdecimal\b(?!\()", "decimal(10,0)", same)
