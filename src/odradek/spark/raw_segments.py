"""Reads numbers at given places of untrusted bytes, and makes Arrow arrays of the bytes between two places.

All functions handle many places at once, without an object for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from odradek.protocol.malformed import MalformedRecords
from odradek.spark.arrow_batches import Numbers, validity

VARINT_BYTES_MAX = 10


def varints(octets: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag varint at each place, and the place after it. A place beyond the end reads the last byte."""
    read = octets.take(at, mode="clip")
    values = (read & 127).astype(np.int64)
    behind = at + 1
    more = read > 127
    shift = 7
    while more.any():
        if shift >= 7 * VARINT_BYTES_MAX:
            raise MalformedRecords("a number does not end")
        read = octets.take(behind, mode="clip")
        values |= np.where(more, (read & 127).astype(np.int64) << shift, 0)
        behind = behind + more
        more = more & (read > 127)
        shift += 7
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1), behind


def pairs(data: bytes, edges: Numbers, has_first: Numbers, has_second: Numbers) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Two binary arrays. A row of `edges` (int32) is: begin and end of its first value, begin and end of its second."""
    # Every second segment lies between two wanted values and is not taken.
    count = len(edges)
    buffers = [None, pa.py_buffer(edges.data), pa.py_buffer(data)]
    segments = pa.Array.from_buffers(pa.binary(), 4 * count - 1, buffers, null_count=0)
    return segments.take(_every_fourth(0, has_first)), segments.take(_every_fourth(2, has_second))


def _every_fourth(begin: int, present: Numbers) -> pa.Array[Any]:
    count = len(present)
    places = np.arange(begin, 4 * count, 4, dtype=np.int32)
    nulls = None if present.all() else validity(present)
    return pa.Array.from_buffers(pa.int32(), count, [nulls, pa.py_buffer(places.data)])
