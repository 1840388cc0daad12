"""What a run of a task needs to know, and what it returns. Both travel between Spark's driver and its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.connect.records import Offset, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One run of one task. `given` is the connector's config, with references resolved."""

    run: str
    connector: str
    task: int
    given: Mapping[str, str]
    bootstrap: str
    clients: Mapping[str, str]
    offsets_topic: str
    # Where the driver listens for reports, and the secret that it expects.
    driver: tuple[str, int]
    token: str
    # A run without data ends after this time. The driver starts another one when there is news.
    linger_s: float
    # The transactional id of a source task; None: records and offsets are written at least once.
    transactional_id: str | None = None
    partitions: tuple[tuple[Partition, Offset | None], ...] = ()
    topics: tuple[tuple[str, int], ...] = ()


class Ending(StrEnum):
    IDLE = "idle"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"  # the worker, its machine, or the connection to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. `trace` says why it failed; `seen` has the end offsets that an idle sink has read to."""

    ending: Ending
    trace: str | None = None
    needs_user: bool = False  # another run would fail in the same way
    seen: Mapping[tuple[str, int], int] = field(default_factory=dict)
