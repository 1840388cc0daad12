"""The samples that conditions of alerts look at: the last ones of each source, and those of ranges of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.monitor.alerts.conditions import Condition, Point
from odradek.monitor.alerts.samples import Labels, Sample

# Of single metrics over time. The selectors of the catalogue match a few series of each process.
SERIES_MAX = 20_000
# A series without a sample for this long is gone.
KEPT_MS = 60_000


class Recording:
    def __init__(self, conditions: Iterable[Condition]) -> None:
        self.at_ms = 0
        self._windows_ms: dict[str, int] = {}
        self._fits: dict[str, list[Callable[[Labels], bool]]] = {}
        for condition in conditions:
            ranges_s = condition.expression.ranges_s
            for name, window_s in ranges_s.items():
                self._windows_ms[name] = max(self._windows_ms.get(name, 0), window_s * 1000)
            for selector in condition.expression.selectors:
                if selector.name in ranges_s:
                    self._fits.setdefault(selector.name, []).append(selector.fits)
        self._now: dict[str, list[Sample]] = {}
        self._series: dict[str, dict[Labels, list[Point]]] = {name: {} for name in self._windows_ms}
        self._read_ms: dict[str, int] = {}  # by source

    def add(self, at_ms: int, sources: Mapping[str, Sequence[Sample] | None]) -> None:
        """The samples of each source, or None if it could not be read."""
        self.at_ms = at_ms
        self._now = {}
        for source, samples in sources.items():
            if samples is None:
                continue
            for each in samples:
                self._now.setdefault(each.name, []).append(each)
                if each.name in self._windows_ms:
                    self._record(each, at_ms, self._read_ms.get(source))
            self._read_ms[source] = at_ms
        self._forget()

    def instant(self, name: str) -> Sequence[Sample]:
        return self._now.get(name, ())

    def series(self, name: str) -> Mapping[Labels, Sequence[Point]]:
        return self._series.get(name, {})

    def _record(self, sample: Sample, at_ms: int, before_ms: int | None) -> None:
        series = self._series[sample.name]
        if not any(fits(sample.labels) for fits in self._fits[sample.name]):
            return
        if sample.labels not in series:
            if sum(map(len, self._series.values())) >= SERIES_MAX:
                return
            # A counter appears with its first event: it was 0 when its process was read before.
            series[sample.labels] = [(before_ms, 0.0)] if before_ms is not None and _counts(sample.name) else []
        series[sample.labels].append((at_ms, sample.value))

    def _forget(self) -> None:
        for name, series in self._series.items():
            first_ms = self.at_ms - self._windows_ms[name] - KEPT_MS
            for labels in list(series):
                points = [each for each in series[labels] if each[0] >= first_ms]
                if points:
                    series[labels] = points
                else:
                    del series[labels]


def _counts(name: str) -> bool:
    return not name.endswith("_info")
