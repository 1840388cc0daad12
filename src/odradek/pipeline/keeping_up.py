"""Whether a query keeps up with its topics, judged by its last micro-batches.

A micro-batch reads the records that arrived while the previous one ran. If a query cannot keep up, its micro-batches
take longer and longer. If their size is limited, more and more records wait for later ones.

The slower a query, the fewer micro-batches there are to judge: two suffice if they are long and follow each other.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from typing import Any

from odradek.spark.offsets import Offsets, from_json

WINDOW_S = 60.0
BATCHES_MIN = 9
BATCHES_KEPT = 120
GROWTH = 1.5
UNREMARKABLE_S = 3.0
"""Shorter delays cause no warning."""
LONG_S = 10.0
"""A micro-batch of this time follows no burst: its query had much to do before, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    number: int
    began_s: float
    took_s: float
    planning_s: float
    execution_s: float
    rows: int
    dropped: int = 0  # rows that were too late, as Spark's own operators count them
    left: int  # records that existed when it was planned, but that its limit left for later micro-batches

    @property
    def ended_s(self) -> float:
        return self.began_s + self.took_s

    @property
    def delay_s(self) -> float:
        """How long a record that arrives after the planning waits until it is processed."""
        return self.took_s * (1 + (self.left / self.rows if self.rows else 0.0))


def micro_batch(progress: Mapping[str, Any]) -> MicroBatch:
    spent = progress.get("durationMs") or {}
    return MicroBatch(
        number=progress["batchId"],
        began_s=datetime.fromisoformat(progress["timestamp"]).timestamp(),
        took_s=(progress.get("batchDuration") or 0) / 1000,
        planning_s=spent.get("queryPlanning", 0) / 1000,
        execution_s=spent.get("addBatch", 0) / 1000,
        rows=progress.get("numInputRows") or 0,
        dropped=sum(each.get("numRowsDroppedByWatermark", 0) for each in progress.get("stateOperators") or ()),
        left=sum(_left(source) for source in progress.get("sources") or ()),
    )


def _left(source: Mapping[str, Any]) -> int:
    latest, end = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
    return sum(max(0, offset - end[place]) for place, offset in latest.items() if place in end)


def _offsets(told: str | Mapping[str, Any] | None) -> Offsets:
    """The offsets of an `odradek` source, as text or parsed, without its marks. Empty for other sources."""
    try:
        given = json.loads(told) if isinstance(told, str) else told
        partitions = given.items() if isinstance(given, dict) else ()
        return from_json({topic: at for topic, at in partitions if isinstance(at, dict)})
    except ValueError:
        return {}


class Pace:
    """The last micro-batches of a query."""

    def __init__(self, every_s: float | None) -> None:
        self._every_s = every_s
        self._batches: deque[MicroBatch] = deque(maxlen=BATCHES_KEPT)
        self._is_idle = False
        self._first: int | None = None  # the number of the first micro-batch of this run

    def see(self, batch: MicroBatch) -> None:
        """Add a micro-batch. One that was seen before is ignored: Spark reports the last one until there is another."""
        self._is_idle = not batch.rows
        if self._first is None:
            self._first = batch.number
        if batch.rows and (not self._batches or batch.number > self._batches[-1].number):
            self._batches.append(batch)

    def warning(self, now_s: float, *, is_working: bool = False) -> str | None:
        """Why the query does not keep up. None when it does, or when there are too few micro-batches.

        `is_working`: a micro-batch runs now. If the query was not idle before, the last ones count until it ends.
        """
        if is_working and not self._is_idle and self._batches:
            now_s = min(now_s, self._batches[-1].ended_s)
        batches = self._recent(now_s)
        if self._grew_long(batches):
            return _behind(batches[-2].delay_s, batches[-1].delay_s, batches[-2:])
        if len(batches) < BATCHES_MIN:
            return None
        before_s, after_s = _delays(batches)
        if after_s > UNREMARKABLE_S and after_s > GROWTH * before_s:
            return _behind(before_s, after_s, batches)
        took_s = median(batch.took_s for batch in batches)
        if self._every_s is not None and took_s > self._every_s:
            return f"micro-batches take {took_s:.1f} s, longer than every={self._every_s:g} s; {_too_long(batches)}"
        return None

    def _grew_long(self, batches: Sequence[MicroBatch]) -> bool:
        """Whether the last one took more than a minute, and much longer than the one directly before it.

        The first one of a run is not compared: it is long because Spark starts, and the second one reads the backlog.
        """
        if len(batches) < 2 or batches[-2].number == self._first:
            return False
        before, last = batches[-2:]
        is_next = last.began_s - before.ended_s <= max(self._every_s or 0.0, UNREMARKABLE_S)
        return is_next and before.took_s > LONG_S and last.took_s > max(WINDOW_S, GROWTH * before.took_s)

    def _recent(self, now_s: float) -> Sequence[MicroBatch]:
        """The micro-batches of the last minute, but at least BATCHES_MIN. Empty if the query was idle for a minute."""
        recent = [batch for batch in self._batches if batch.ended_s > now_s - WINDOW_S]
        if not recent:
            return ()
        return recent if len(recent) >= BATCHES_MIN else list(self._batches)[-BATCHES_MIN:]


def _delays(batches: Sequence[MicroBatch]) -> tuple[float, float]:
    """How long records waited in the first third of the micro-batches, and in the last third."""
    third = len(batches) // 3
    before, now = (median(batch.delay_s for batch in part) for part in (batches[:third], batches[-third:]))
    return before, now


def _behind(before_s: float, now_s: float, batches: Sequence[MicroBatch]) -> str:
    return f"it falls behind: records waited {before_s:.1f} s, now {now_s:.1f} s; {_too_much(batches)}"


def _too_much(batches: Sequence[MicroBatch]) -> str:
    if (planning := _planning(batches)) is not None:
        return planning
    span_s = batches[-1].began_s - batches[0].began_s
    came = sum(batch.rows for batch in batches[1:]) + batches[-1].left - batches[0].left
    done = sum(batch.rows for batch in batches) / sum(batch.took_s for batch in batches)
    return (
        f"the topics get {came / span_s:,.0f} rows/s, and it processes {done:,.0f} rows/s: "
        "give it more cores, more partitions, or fewer steps"
    )


def _too_long(batches: Sequence[MicroBatch]) -> str:
    if (planning := _planning(batches)) is not None:
        return planning
    execution_s, took_s = fmean(batch.execution_s for batch in batches), fmean(batch.took_s for batch in batches)
    return (
        f"execution takes {execution_s:.1f} s of {took_s:.1f} s: give it more cores, more partitions, fewer steps, "
        "or a longer every="
    )


def _planning(batches: Sequence[MicroBatch]) -> str | None:
    """The warning for queries that spend most of their time on Spark's planning; None for all others."""
    planning_s, took_s = fmean(batch.planning_s for batch in batches), fmean(batch.took_s for batch in batches)
    if planning_s <= took_s / 2:
        return None
    return f"planning takes {planning_s:.1f} s of {took_s:.1f} s: give the driver more cores, or a longer every="
