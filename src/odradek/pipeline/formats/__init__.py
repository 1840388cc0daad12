"""Formats: raw records to columns and back, and the dead letters in between."""

from odradek.pipeline.formats.dead_letters import dead_letters
from odradek.pipeline.formats.encoding import encoding
from odradek.pipeline.formats.keys import key_bytes
from odradek.pipeline.formats.kinds import Avro, Debezium, Delimited, Format, Json, Protobuf, Raw, columns_of, format_of
from odradek.pipeline.formats.parsing import changelog, parsing
from odradek.pipeline.formats.schemas import BadSchema, Schema, check_schema, struct_of

__all__ = [
    "Avro",
    "BadSchema",
    "Debezium",
    "Delimited",
    "Format",
    "Json",
    "Protobuf",
    "Raw",
    "Schema",
    "changelog",
    "check_schema",
    "columns_of",
    "dead_letters",
    "encoding",
    "format_of",
    "key_bytes",
    "parsing",
    "struct_of",
]
