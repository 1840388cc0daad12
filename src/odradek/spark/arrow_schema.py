"""The columns of `schema` for Arrow. A separate module, because some Spark processes need only the names."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))
TIMESTAMP = pa.timestamp("us", tz="UTC")


@cache
def arrow_schema(include_headers: bool, include_position: bool = False) -> pa.Schema:
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        fields.append(pa.field("headers", HEADERS))
    if include_position:
        fields.append(pa.field("position", pa.binary(), nullable=False))
    return pa.schema(fields)
