"""What a running application tells the cluster about itself, in one compacted topic that the console reads.

Two records for each application: its picture, once, and its status, every few seconds. They stay when it has ended, so
that its last error can be seen. Values are JSON. Every client of the cluster can write here: readers check all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from odradek.pipeline.picture import Picture
from odradek.pipeline.query_record import QueryRecord

TOPIC = "__odradek_streams"
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "segment.ms": "3600000"}
EVERY_S = 5.0
# An application whose status is older than this has been killed, or cannot reach the cluster.
SILENT_S = 60.0
STATUS, TOPOLOGY = "status", "topology"
VALUE_BYTES_MAX = 256 * 1024

T = TypeVar("T")


class BadAnnouncement(ValueError):
    """The record is no announcement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is fixed of a query: its topics, and what its sinks guarantee."""

    group: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    guarantees: Mapping[str, str]  # by what the sink writes to


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    application: str
    host: str
    pid: int
    started_s: float  # seconds since 1970
    at_s: float
    is_over: bool  # it has ended by itself: stopped, or failed
    starts: int
    state_dir: str
    queries: tuple[QueryRecord, ...]
    about: Mapping[str, About] = field(default_factory=dict)  # by query
    dead_letters: tuple[str, ...] = ()  # topics
    late_rows: tuple[str, ...] = ()
    views: Mapping[str, str] = field(default_factory=dict)  # changelog topics, by view
    metrics: str | None = None  # the address of its metrics


def key_of(part: str, application: str) -> bytes:
    return f"{part} {application}".encode()


def encoded(value: Announced | Picture) -> bytes:
    return msgspec.json.encode(value)


def decoded(kind: type[T], value: bytes) -> T:
    """Raises BadAnnouncement."""
    if len(value) > VALUE_BYTES_MAX:
        raise BadAnnouncement(f"it has {len(value)} bytes, more than {VALUE_BYTES_MAX}")
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, RecursionError) as wrong:
        raise BadAnnouncement(str(wrong)) from wrong
