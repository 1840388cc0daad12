"""The canonical order of an application's records, and of everything that is made of them.

A position is bytes that compare in that order. The position of a record is made by the Spark source: the newest record
timestamp so far in what the micro-batch reads of its partition, the rank of its topic, its partition, its offset. What
a step makes of a row comes directly after the row; what it makes when time passes comes before the row whose time it
was that passed.

A row gets the mark of each lane that it takes to a step. So two rows that come of one record have different positions,
and neither is the beginning of the other: what is made of them is in their own order, however many levels of steps
either has skipped. Time moves before all lanes of the row that moves it.
"""

from __future__ import annotations

import hashlib
import struct

Position = bytes

_TIME = struct.Struct(">Q")
_RECORD = struct.Struct(">QHIQ")
_SIGN = 1 << 63
_BY_TIME, _BY_ROW = b"\x00", b"\x01"
_LANE, _RESULT = struct.Struct(">H"), struct.Struct(">II")
BEFORE_LANES = _LANE.pack(0)
"""The mark of a place where a row moves time: all lanes of the row come after it."""


def record_position(timestamp_ms: int, rank: int, partition: int, offset: int) -> Position:
    """As the source makes it, for tests and for rows that have no record."""
    return _RECORD.pack(timestamp_ms + _SIGN, rank, partition, offset)


def record_place(position: Position) -> tuple[int, int, int]:
    """The record that a position belongs to: the rank of its source, its partition, its offset."""
    _, rank, partition, offset = _RECORD.unpack_from(position)
    return rank, partition, offset


def timestamp_ms(position: Position) -> int:
    """The record timestamp that a position stands at."""
    return int(_TIME.unpack_from(position)[0]) - _SIGN


def lane_mark(lane: int) -> bytes:
    """Two lanes of one row may end in different shards, and must not be the same place."""
    return _LANE.pack(lane + 1)


def result_mark(step: int, number: int) -> bytes:
    return _BY_ROW + _RESULT.pack(step, number)


def made_of_row(position: Position, step: int, number: int) -> Position:
    """The `number`-th result that a step made of the row at this position."""
    return position + result_mark(step, number)


def after_results_of_time(position: Position) -> Position:
    """Where time has moved for the steps below: after what it made above, before what the row there makes."""
    return position + _BY_TIME + b"\xff"


def made_by_time(position: Position, step: int, due: int, key: bytes, number: int) -> Position:
    """A result of the passing of time: keys of all shards in one order, by when they were due."""
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return position + _BY_TIME + struct.pack(">QI", due + _SIGN, step) + digest + struct.pack(">I", number)
