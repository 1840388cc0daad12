"""Formats: raw records to columns and back, and the dead letters in between."""

from odradek.streams.formats.dead_letters import dead_letters
from odradek.streams.formats.encoding import encoding
from odradek.streams.formats.keys import key_bytes
from odradek.streams.formats.kinds import Avro, Debezium, Delimited, Format, Json, Raw, columns_of, format_of
from odradek.streams.formats.parsing import changelog, parsing
from odradek.streams.formats.schemas import BadSchema, Schema, check_schema, struct_of

__all__ = [
    "Avro",
    "BadSchema",
    "Debezium",
    "Delimited",
    "Format",
    "Json",
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
