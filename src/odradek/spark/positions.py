"""The column `position`: where a record stands among all records of an application, as bytes that compare.

The order is that of (newest timestamp so far in the range, rank of the topic, partition, offset). A range is what a
task reads of a partition. The first field never goes back within it, so its records keep the order of their offsets. It
begins anew with every range: no two tasks of a micro-batch may share a partition, see `options._check_together`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, Any]

# Each field big-endian and unsigned: then bytes compare as the numbers do.
POSITION = np.dtype([("time", ">u8"), ("rank", ">u2"), ("partition", ">u4"), ("offset", ">u8")])
POSITION_BYTES = POSITION.itemsize
# Greater than every position of a record.
LAST = b"\xff" * POSITION_BYTES

SIGN = np.uint64(1 << 63)


class Positions:
    """Positions of the records of one range, which are asked for in the order of their offsets."""

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
