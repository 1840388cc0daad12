"""Signals: rows that a user inserts into a table to tell the connector something, by Debezium's names and formats."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

_log = logging.getLogger("odradek.connect.postgres")

CHUNK_END = "snapshot-window-close"


class Condition(msgspec.Struct, rename="kebab"):
    data_collection: str
    filter: str


class ExecuteSnapshot(msgspec.Struct, rename="kebab"):
    """`data_collections`: regular expressions of SCHEMA.TABLE."""

    data_collections: list[str]
    type: Literal["incremental", "INCREMENTAL", "Incremental"] = "incremental"
    additional_conditions: list[Condition] = []

    def covers(self, table: str) -> bool:
        return any(_names(each, table) for each in self.data_collections)


class StopSnapshot(msgspec.Struct, rename="kebab"):
    data_collections: list[str] = []
    type: Literal["incremental", "INCREMENTAL", "Incremental"] = "incremental"

    def covers(self, table: str) -> bool:
        return not self.data_collections or any(_names(each, table) for each in self.data_collections)


class PauseSnapshot(msgspec.Struct):
    pass


class ResumeSnapshot(msgspec.Struct):
    pass


class ChunkEnd(msgspec.Struct):
    """A row that the connector has written itself, after it has read a chunk."""

    id: str


class LogMessage(msgspec.Struct):
    message: str


Signal = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | ChunkEnd
_KINDS: Mapping[str, Any] = {
    "execute-snapshot": ExecuteSnapshot,
    "stop-snapshot": StopSnapshot,
    "pause-snapshot": PauseSnapshot,
    "resume-snapshot": ResumeSnapshot,
    "log": LogMessage,
}


def signal(id_: str, kind: str, data: str | None) -> Signal | None:
    """None for a signal that asks for nothing. A wrong one is logged, because the row cannot be refused any more."""
    if kind == CHUNK_END:
        return ChunkEnd(id_)
    if kind not in _KINDS:
        _log.warning("the signal %s has the unknown type %r; known are %s", id_, kind, ", ".join(_KINDS))
        return None
    try:
        found = msgspec.json.decode(data or "{}", type=_KINDS[kind])
    except msgspec.DecodeError as wrong:
        _log.warning("the signal %s (%s) is wrong: %s", id_, kind, wrong)
        return None
    if isinstance(found, LogMessage):
        _log.info("signal %s: %s", id_, found.message)
        return None
    asked: Signal = found
    return asked


def _names(pattern: str, table: str) -> bool:
    try:
        return re.fullmatch(pattern, table) is not None
    except re.error:
        _log.warning("%r in a signal is not a regular expression", pattern)
        return False
