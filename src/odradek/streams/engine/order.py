"""The canonical order of an application's records, and of everything that is made of them.

A position is bytes that compare in that order. The position of a record is made by the Spark source: the newest record
timestamp of its partition so far, the rank of its topic, its partition, its offset. What a step makes of a row comes
directly after the row; what it makes when time passes comes before the row whose time it was that passed.
"""

from __future__ import annotations

import hashlib
import struct

Position = bytes

_TIME = struct.Struct(">Q")
_SIGN = 1 << 63
_BY_TIME, _BY_ROW = b"\x00", b"\x01"
RECORD_BYTES = 22


def record_position(timestamp_ms: int, rank: int, partition: int, offset: int) -> Position:
    """As the source makes it, for tests and for rows that have no record."""
    return struct.pack(">QHIQ", timestamp_ms + _SIGN, rank, partition, offset)


def timestamp_ms(position: Position) -> int:
    """The record timestamp that a position stands at."""
    return int(_TIME.unpack_from(position)[0]) - _SIGN


def made_of_row(position: Position, step: int, number: int) -> Position:
    """The `number`-th result that a step made of the row at this position."""
    return position + _BY_ROW + struct.pack(">II", step, number)


def after_results_of_time(position: Position) -> Position:
    """Where time has moved for the steps below: after what it made above, before what the row there makes."""
    return position + _BY_TIME + b"\xff"


def made_by_time(position: Position, step: int, due: int, key: bytes, number: int) -> Position:
    """A result of the passing of time: keys of all shards in one order, by when they were due."""
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return position + _BY_TIME + struct.pack(">QI", due + _SIGN, step) + digest + struct.pack(">I", number)
