"""The record formats with options, for users: `app.stream("lines", schema=..., format=Delimited(","))`.

Code of the project imports them from `odradek.pipeline.formats`, where they live.
"""

from odradek.pipeline.formats import Avro, BadSchema, Debezium, Delimited, Format, Json, Protobuf, Raw

__all__ = ["Avro", "BadSchema", "Debezium", "Delimited", "Format", "Json", "Protobuf", "Raw"]
