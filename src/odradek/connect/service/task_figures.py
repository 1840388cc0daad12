"""What the runs of one task have reported since the service became active."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.monitor.instruments import HALF_MINUTE_NS, Recent


class RecentRate:
    """Growth per second over the last 30 to 60 seconds, or since the start if that is less."""

    def __init__(self, now_ns: int) -> None:
        self._total = 0
        # When the current and the previous half minute began, and the total then.
        self._now = self._before = (now_ns, 0)

    def add(self, count: int, now_ns: int) -> None:
        self._turn(now_ns)
        self._total += count

    @property
    def total(self) -> int:
        return self._total

    def per_second(self, now_ns: int) -> float:
        self._turn(now_ns)
        began_ns, total = self._before
        passed_ns = now_ns - began_ns
        return (self._total - total) * 1e9 / passed_ns if passed_ns > 0 else 0.0

    def _turn(self, now_ns: int) -> None:
        passed_ns = now_ns - self._now[0]
        if passed_ns >= HALF_MINUTE_NS:
            began = (now_ns - passed_ns % HALF_MINUTE_NS, self._total)
            self._before = self._now if passed_ns < 2 * HALF_MINUTE_NS else (began[0] - HALF_MINUTE_NS, self._total)
            self._now = began


@dataclass(slots=True)
class TaskFigures:
    """`polled`: records from the source, or from the topics of a sink. `written`: without dead letters."""

    polled: RecentRate
    written: RecentRate
    batches: Recent = field(default_factory=Recent)
    skipped: int = 0
    dead_letters: int = 0
    failures: int = 0

    @classmethod
    def beginning(cls, now_ns: int) -> TaskFigures:
        return cls(RecentRate(now_ns), RecentRate(now_ns))

    def report(self, *, polled: int, written: int, skipped: int, dead_letters: int, now_ns: int) -> None:
        self.polled.add(polled, now_ns)
        self.written.add(written, now_ns)
        self.batches.observe(polled, now_ns)
        self.skipped += skipped
        self.dead_letters += dead_letters
