"""The messages of pgoutput, PostgreSQL's decoder for logical replication, protocol version 1.

Values are the texts of PostgreSQL's types. A transaction arrives as a whole, after its commit. Messages about rows
are read in one pass straight into fields (`read_row`), because there is one for each change.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Microseconds between 1970 and 2000, where PostgreSQL's times begin.
EPOCH_US: Final = 946_684_800_000_000

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_UINT32 = struct.Struct("!I")
_BEGIN = struct.Struct("!QqI")
_COMMIT = struct.Struct("!BQQq")
_MESSAGE = struct.Struct("!BQ")


class Unchanged:
    """Stands for a large value that the statement did not change, and that is therefore not in the log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()

INSERT, UPDATE, DELETE = ord("I"), ord("U"), ord("D")
ROW_MESSAGES: Final = frozenset({INSERT, UPDATE, DELETE})

Plan = Sequence[tuple[str | None, Callable[[bytes], Any]]]
"""For each column of a table: the field that it becomes, if any, and how its text is decoded."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: int
    committed_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    committed_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as of the next messages. `identity` is its REPLICA IDENTITY: d, n, f or i."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(slots=True)
class RowChange:
    """`old` has values in the identity's columns alone, unless `is_old_full`. UNCHANGED stands in `new` alone."""

    operation: str
    old: Fields | None
    new: Fields | None
    is_old_full: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """Written by `pg_logical_emit_message`."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Truncate | LogicalMessage


def decoded(data: bytes) -> Message | None:
    """None for messages that say nothing about rows: origins and types."""
    read = _READERS.get(data[0])
    if read is None:
        raise ValueError(f"pgoutput sent a message of the unknown kind {data[:1]!r}")
    return read(data)


def _begin(data: bytes) -> Begin:
    lsn, at_us, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, at_us + EPOCH_US, xid)


def _commit(data: bytes) -> Commit:
    _, lsn, end, at_us = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end, at_us + EPOCH_US)


def _relation(data: bytes) -> Relation:
    (oid,) = _UINT32.unpack_from(data, 1)
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _INT16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        name, at = _text(data, at + 1)
        (kind,) = _UINT32.unpack_from(data, at)
        (modifier,) = _INT32.unpack_from(data, at + 4)
        at += 8
        columns.append(RelationColumn(name, kind, modifier, bool(flags & 1)))
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _truncate(data: bytes) -> Truncate:
    (count,) = _UINT32.unpack_from(data, 1)
    return Truncate(struct.unpack_from(f"!{count}I", data, 6))


def _message(data: bytes) -> LogicalMessage:
    flags, lsn = _MESSAGE.unpack_from(data, 1)
    prefix, at = _text(data, 10)
    (length,) = _UINT32.unpack_from(data, at)
    return LogicalMessage(bool(flags & 1), lsn, prefix, data[at + 4 : at + 4 + length])


def relation_of(data: bytes) -> int:
    """The table that a message about a row is about."""
    return int.from_bytes(data[1:5], "big")


def row_change(data: bytes, plan: Plan) -> RowChange:
    kind = data[0]
    if kind == INSERT:
        return RowChange("c", None, read_row(plan, data, 6)[0])
    if kind == DELETE:
        return RowChange("d", read_row(plan, data, 6)[0], None, data[5] == 79)
    if data[5] == 78:  # N: the new row comes at once
        return RowChange("u", None, read_row(plan, data, 6)[0])
    old, at = read_row(plan, data, 6)
    return RowChange("u", old, read_row(plan, data, at + 1)[0], data[5] == 79)  # O: the whole old row; K: its key


def read_row(plan: Plan, data: bytes, at: int) -> tuple[Fields, int]:
    """The fields of the row at a position, and the position after it."""
    fields: Fields = {}
    if len(plan) != data[at] << 8 | data[at + 1]:
        raise ValueError(f"pgoutput sent a row of {data[at] << 8 | data[at + 1]} columns instead of {len(plan)}")
    at += 2
    for name, decode in plan:
        kind = data[at]
        if kind == 116:  # t: a text
            begin = at + 5
            at = begin + int.from_bytes(data[at + 1 : begin], "big")
            if name is not None:
                fields[name] = decode(data[begin:at])
        else:
            at += 1
            if name is not None:
                fields[name] = None if kind == 110 else UNCHANGED  # n: null, u: unchanged
    return fields, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


_READERS: dict[int, Callable[[bytes], Message | None]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("T"): _truncate,
    ord("M"): _message,
    ord("O"): lambda _: None,
    ord("Y"): lambda _: None,
}
