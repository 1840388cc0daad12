"""What the page shows, from records and the state of the parts: no I/O, no clock.

`everything()` is for a page that opens; `changes()` is what happened since it was last called, for the pages that are
open. Both have the same shape, and a page may see a thing twice.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import NORMAL

ALERTS_KEPT = 30
LETTERS_KEPT = 5
SAMPLES_KEPT = 120  # seconds of the sparklines
RATE_WINDOW_S = 5
MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """The state of one part of the demo, as the page shows it."""

    name: str
    state: str  # waiting, starting, alive, restarting, stopped
    detail: str
    restarts: int = 0
    progress: float = 1.0  # of the way from starting to alive


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The database, the connectors and where alerts land, as the page shows them."""

    database: str  # which kind
    drivers: int
    changes: int  # of drivers, committed
    connectors: Mapping[str, str]  # the state of each; empty while the service does not answer
    table_rows: int
    lake_rows: int
    lake_files: int
    trail: Mapping[str, object] | None  # of the last change that a visitor made


@dataclass(slots=True)
class _Changed:
    trucks: set[int] = field(default_factory=set)
    drivers: set[int] = field(default_factory=set)
    statistics: set[int] = field(default_factory=set)
    alerts: list[dict[str, object]] = field(default_factory=list)
    letters: list[dict[str, object]] = field(default_factory=list)
    samples: list[dict[str, float | None]] = field(default_factory=list)


class PageState:
    def __init__(self) -> None:
        self._trucks: dict[int, dict[str, object]] = {}
        self._drivers: dict[int, dict[str, object]] = {}
        self._statistics: dict[int, dict[str, object]] = {}
        self._alerts: deque[dict[str, object]] = deque(maxlen=ALERTS_KEPT)
        self._letters: deque[dict[str, object]] = deque(maxlen=LETTERS_KEPT)
        self._totals: Counter[str] = Counter()
        self._violations = 0
        # (second, totals and violations then): the rates are differences of these
        self._seconds: deque[tuple[float, Counter[str], int]] = deque(maxlen=MINUTE_S + 1)
        self._samples: deque[dict[str, float | None]] = deque(maxlen=SAMPLES_KEPT)
        self._behind_s: dict[str, float] | None = None
        self._parts: tuple[PartState, ...] = ()
        self._chain: ChainState | None = None
        self._changed = _Changed()

    def see(self, topic: str, value: bytes, headers: Mapping[str, bytes]) -> None:
        self._totals[topic] += 1
        if topic == topics.DEAD_LETTERS:
            self._see_letter(value, headers)
            return
        try:
            event = json.loads(value)
        except ValueError:
            return  # the application's dead letters will tell
        if topic == topics.POSITIONS:
            self._see_position(event)
        elif topic == topics.SPEEDS:
            self._see_speed(event)
        elif topic == topics.DRIVERS:
            row = event["after"]
            self._drivers[row["id"]] = row | {"changed": event["op"] == "u"}
            self._changed.drivers.add(row["id"])
        elif topic == topics.STATISTICS:
            self._statistics[event["driverId"]] = event
            self._changed.statistics.add(event["driverId"])
        elif topic == topics.ALERTS:
            self._alerts.append(event)
            self._changed.alerts.append(event)

    def tell_parts(self, parts: tuple[PartState, ...]) -> None:
        self._parts = parts

    def tell_chain(self, chain: ChainState) -> None:
        self._chain = chain

    def tell_behind(self, seconds_by_topic: Mapping[str, float] | None) -> None:
        """How old the oldest record of each topic is that the application has not processed; None: it never has."""
        self._behind_s = None if seconds_by_topic is None else dict(seconds_by_topic)

    def tick(self, now_s: float) -> None:
        """Once a second: a point for each sparkline."""
        self._seconds.append((now_s, self._totals.copy(), self._violations))
        sample = {
            "events": round(self._rate(topics.POSITIONS) + self._rate(topics.SPEEDS), 1),
            "violations": self._violations_per_minute(),
            "alerts": self._totals[topics.ALERTS],
            "behind": self._behind(),
        }
        self._samples.append(sample)
        self._changed.samples.append(sample)

    def everything(self) -> dict[str, object]:
        return self._frame(
            trucks=list(self._trucks.values()),
            drivers=list(self._drivers.values()),
            statistics=list(self._statistics.values()),
            alerts=list(self._alerts),
            letters=list(self._letters),
            samples=list(self._samples),
        )

    def changes(self) -> dict[str, object]:
        changed, self._changed = self._changed, _Changed()
        return self._frame(
            trucks=[self._trucks[driver] for driver in sorted(changed.trucks)],
            drivers=[self._drivers[driver] for driver in sorted(changed.drivers)],
            statistics=[self._statistics[driver] for driver in sorted(changed.statistics)],
            alerts=changed.alerts,
            letters=changed.letters,
            samples=changed.samples,
        )

    def summary(self) -> dict[str, int]:
        """A line's worth, for a terminal."""
        totals = self._totals
        return {
            "positions": totals[topics.POSITIONS],
            "violations": totals[topics.ENRICHED],
            "alerts": totals[topics.ALERTS],
            "dead letters": totals[topics.DEAD_LETTERS],
            **({} if self._behind_s is None else {"seconds behind": round(self._behind() or 0)}),
        }

    def worst_driver(self) -> int | None:
        """Who has the most violations, and so the next alert."""
        worst = max(self._statistics.values(), key=lambda row: int(str(row["violations"])), default=None)
        return None if worst is None else int(str(worst["driverId"]))

    def _behind(self) -> float | None:
        return None if self._behind_s is None else max(self._behind_s.values(), default=0.0)

    def _frame(self, **news: list[dict[str, object]] | list[dict[str, float | None]]) -> dict[str, object]:
        names = topics.INPUTS + topics.OUTPUTS
        return news | {
            "second": self._seconds[-1][0] if self._seconds else 0,
            "topics": {
                name: {
                    "total": self._totals[name],
                    "rate": self._rate(name),
                    "behind": (self._behind_s or {}).get(name),
                }
                for name in names
            },
            "behind": self._behind(),
            "parts": [asdict(part) for part in self._parts],
            "chain": None if self._chain is None else asdict(self._chain),
        }

    def _see_position(self, event: dict[str, object]) -> None:
        driver: int = event["driverId"]  # type: ignore[assignment]
        known = self._trucks.get(driver, {"violations": 0, "last": None, "speed": None})
        if event["eventType"] != NORMAL:
            self._violations += 1
            known = known | {"violations": known["violations"] + 1, "last": event["eventType"]}  # type: ignore[operator]
        self._trucks[driver] = known | event
        self._changed.trucks.add(driver)

    def _see_speed(self, event: dict[str, object]) -> None:
        driver: int = event["driverId"]  # type: ignore[assignment]
        if driver in self._trucks:
            self._trucks[driver]["speed"] = event["speed"]

    def _see_letter(self, value: bytes, headers: Mapping[str, bytes]) -> None:
        letter: dict[str, object] = {
            "value": value.decode(errors="replace"),
            "why": headers.get("__streams.errors.message", b"").decode(errors="replace"),
        }
        self._letters.append(letter)
        self._changed.letters.append(letter)

    def _rate(self, topic: str) -> float:
        """Records per second over the last few seconds."""
        if len(self._seconds) < 2:
            return 0.0
        before_s, before, _ = self._seconds[max(0, len(self._seconds) - 1 - RATE_WINDOW_S)]
        now_s, now, _ = self._seconds[-1]
        return round((now[topic] - before[topic]) / (now_s - before_s), 1)

    def _violations_per_minute(self) -> int:
        """The violations of the last minute. During the first minute: projected from the seconds so far."""
        if len(self._seconds) < 2:
            return 0
        (before_s, _, before), (now_s, _, now) = self._seconds[0], self._seconds[-1]
        return round((now - before) / (now_s - before_s) * MINUTE_S)
