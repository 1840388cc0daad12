"""Decodes record headers into Arrow: the first header of all records at once, then the second of all that have two, …

Most records have no headers. Each of them costs one read of one byte.
"""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pyarrow as pa

from odradek.protocol.malformed import MalformedRecords
from odradek.spark.arrow_batches import Numbers, binary, listed
from odradek.spark.raw_segments import pairs, varints

# Each round makes tens of numpy calls, however few records have so many headers. Above this, librdkafka reads.
HEADERS_MAX = 128
SMALLEST_BYTES = 2  # the lengths of an empty name and an empty value

SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def headers(data: bytes, starts: Numbers, ends: Numbers) -> pa.Array[Any]:
    """The headers of records. They lie between `starts` and `ends` and must fill these bytes exactly."""
    octets = np.frombuffer(data, np.uint8)
    counts, at = varints(octets, starts)
    if counts.min() < 0 or counts.max() > HEADERS_MAX or (at + SMALLEST_BYTES * counts > ends).any():
        raise MalformedRecords(f"records with {counts.min()} to {counts.max()} headers are not decoded here")
    edges, has_value = _places(octets, at, ends, counts)
    if not len(edges):
        return listed(binary([], pa.string()), binary([]), counts)
    names, values = pairs(data, edges, np.ones(len(edges), np.bool_), has_value)
    return listed(_text(names), values, counts)


def _places(octets: Numbers, at: Numbers, ends: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Where each name and value begins and ends, record by record, and which values are not null."""
    size = len(octets)
    slots = np.cumsum(counts) - counts  # the index of each record's first header among all headers
    edges = np.empty((counts.sum(), 4), np.int32)
    has_value = np.empty(len(edges), np.bool_)
    for number in range(counts.max()):
        having = np.flatnonzero(counts > number)
        name_sizes, name_starts = varints(octets, at[having])
        name_ends = name_starts + np.clip(name_sizes, 0, size)
        value_sizes, value_starts = varints(octets, name_ends)
        value_ends = value_starts + np.clip(value_sizes, 0, size)
        # Checked in every round: a place beyond the data may not fit into the int32 of `edges`.
        if name_sizes.min() < 0 or (value_ends > ends[having]).any():
            raise MalformedRecords("a header has no name, or a record is shorter than its headers")
        slot = slots[having] + number
        edges[slot] = np.stack((name_starts, name_ends, value_starts, value_ends), axis=1)
        has_value[slot] = value_sizes >= 0
        at[having] = value_ends
    if (at != ends).any():
        raise MalformedRecords("a record does not end with its headers")
    return edges, has_value


def _text(names: pa.Array[Any]) -> pa.Array[Any]:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return binary([as_java(name).encode() for name in cast("list[bytes]", names.to_pylist())], pa.string())


def as_java(name: bytes) -> str:
    """Decode as Java's consumer does: U+FFFD for invalid UTF-8, and one per surrogate where Python makes three."""
    return SURROGATE.sub(b"\xff", name).decode(errors="replace")
