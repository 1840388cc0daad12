"""The health of a cluster in one sentence, with the reason and the next step. A pure function of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import quote

from odradek.console.collecting.snapshot import Broker, Snapshot

NAMED_MAX = 3
DISK_WARN_SHARE, DISK_BAD_SHARE = 0.85, 0.95


class Level(IntEnum):
    GOOD = 0
    UNKNOWN = 1
    WARN = 2
    BAD = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem: what, why, and what to do. `path` is the page that shows it."""

    level: Level
    what: str
    why: str
    step: str
    path: str = "/"
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    level: Level
    sentence: str
    findings: Sequence[Finding] = ()

    @property
    def first(self) -> Finding | None:
        return self.findings[0] if self.findings else None


def verdict(snapshot: Snapshot) -> Verdict:
    if snapshot.is_empty:
        why = snapshot.problem
        sentence = f"No broker answers: {why}" if why else "Reading the cluster for the first time"
        return Verdict(level=Level.BAD if why else Level.UNKNOWN, sentence=sentence)
    found = sorted(findings(snapshot), key=lambda each: -each.level)
    if not found:
        return Verdict(level=Level.GOOD, sentence=_all_is_well(snapshot))
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return Verdict(level=found[0].level, sentence=f"{found[0].what}{more}", findings=found)


def findings(snapshot: Snapshot) -> Iterator[Finding]:
    """The most severe kinds first."""
    for broker in snapshot.brokers:
        if not broker.is_alive:
            yield _dead(broker)


def _dead(broker: Broker) -> Finding:
    return Finding(
        level=Level.BAD,
        what=f"Broker {broker.broker_id} is down",
        why=broker.problem or "the controller has fenced it",
        step="Start it again",
        path=f"/brokers/{quote(str(broker.broker_id))}",
    )


def _all_is_well(snapshot: Snapshot) -> str:
    brokers = f"{len(snapshot.brokers)} brokers are" if len(snapshot.brokers) > 1 else "the broker is"
    return f"All is well: {brokers} up, and all {snapshot.partitions:,} partitions are in sync"
