"""The headers of records, decoded into Arrow: the first of every record at once, then the second of those with two …

Most records have none, which costs one look at one byte each.
"""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pyarrow as pa

from odradek.protocol.malformed import MalformedRecords
from odradek.spark.arrow_batches import Numbers, binary, listed
from odradek.spark.raw_segments import pairs, varints

# A round is tens of numpy's calls, however few records take part in it: one with very many headers is for librdkafka.
HEADERS_MAX = 128
SMALLEST_BYTES = 2  # the lengths of an empty name and an empty value

SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def headers(data: bytes, starts: Numbers, ends: Numbers) -> pa.Array[Any]:
    """Of records whose headers lie between these places, to the last byte."""
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
    """Where each name and value begins and ends, record by record, and which values are there."""
    size = len(octets)
    slots = np.cumsum(counts) - counts  # where the headers of a record begin among those of all
    edges = np.empty((counts.sum(), 4), np.int32)
    has_value = np.empty(len(edges), np.bool_)
    for number in range(counts.max()):
        having = np.flatnonzero(counts > number)
        name_sizes, name_starts = varints(octets, at[having])
        name_ends = name_starts + np.clip(name_sizes, 0, size)
        value_sizes, value_starts = varints(octets, name_ends)
        value_ends = value_starts + np.clip(value_sizes, 0, size)
        # In every round: what lies beyond the data may be too far for the numbers of edges.
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
    """With U+FFFD for what is no UTF-8, as Java's consumer has it: one for a surrogate, where Python has three."""
    return SURROGATE.sub(b"\xff", name).decode(errors="replace")
