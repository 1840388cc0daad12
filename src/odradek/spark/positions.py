"""The column `position`: the place of a record in the order of all records of an application, as comparable bytes.

The order is (newest timestamp so far in the range, rank of the topic, partition, offset). A range is the part of a
partition that one task reads. The first field never decreases within a range, so records keep the order of their
offsets. It starts again with every range, so no two tasks of a micro-batch may share a partition: see
`options._check_together`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, Any]

# Fields are big-endian and unsigned, so that bytes compare like the numbers.
POSITION = np.dtype([("time", ">u8"), ("rank", ">u2"), ("partition", ">u4"), ("offset", ">u8")])
POSITION_BYTES = POSITION.itemsize
# Greater than every position of a record.
LAST = b"\xff" * POSITION_BYTES

SIGN = np.uint64(1 << 63)


class Positions:
    """Positions of the records of one range. Call `column` in the order of the offsets."""

    def __init__(self, rank: int, partition: int) -> None:
        self._rank = rank
        self._partition = partition
        self._newest_ms = np.iinfo(np.int64).min

    def column(self, stamps_ms: Numbers, offsets: Numbers) -> pa.Array[Any]:
        newest = np.maximum.accumulate(np.maximum(stamps_ms, self._newest_ms))
        if len(newest):
            self._newest_ms = int(newest[-1])
        found = np.empty(len(newest), POSITION)
        found["time"] = newest.view(np.uint64) ^ SIGN  # plus 2**63: timestamps may be negative
        found["rank"] = self._rank
        found["partition"] = self._partition
        found["offset"] = offsets
        ends = np.arange(len(found) + 1, dtype=np.int32) * np.int32(POSITION_BYTES)
        buffers = [None, pa.py_buffer(ends.data), pa.py_buffer(found.view(np.uint8).data)]
        return pa.Array.from_buffers(pa.binary(), len(found), buffers, null_count=0)
