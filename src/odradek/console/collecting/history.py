"""The last values of figures, for sparklines and charts: one bounded ring of samples for each figure."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SAMPLES_MAX = 900  # of the figures of the whole cluster: an hour at one in four seconds
SAMPLES_EACH_MAX = 150  # of a topic, group or broker: ten minutes
SERIES_MAX = 20_000
UNKNOWN = float("nan")


class Point(NamedTuple):
    at_ms: int
    value: float  # NaN: unknown


class Series:
    def __init__(self, samples_max: int) -> None:
        self._times_ms: deque[int] = deque(maxlen=samples_max)
        self._values: deque[float] = deque(maxlen=samples_max)

    def add(self, at_ms: int, value: float) -> None:
        self._times_ms.append(at_ms)
        self._values.append(value)

    @property
    def last_ms(self) -> int:
        return self._times_ms[-1] if self._times_ms else 0

    def points(self) -> list[Point]:
        return list(map(Point, self._times_ms, self._values))

    def values(self) -> array[float]:
        return array("d", self._values)


GROWTH_MS = 300_000
GROWTH_MS_MIN = 60_000


def growth(points: Sequence[Point]) -> float | None:
    """The change per second over the last minutes; None before there are samples of one minute."""
    recent = [point for point in points if point.at_ms >= points[-1].at_ms - GROWTH_MS]
    if len(recent) < 2 or recent[-1].at_ms - recent[0].at_ms < GROWTH_MS_MIN:
        return None
    return (recent[-1].value - recent[0].value) / (recent[-1].at_ms - recent[0].at_ms) * 1000


class History:
    """Figures by name, such as `cluster/records` or `topic/orders`. One without new samples goes first."""

    def __init__(self, samples_max: int = SAMPLES_EACH_MAX, series_max: int = SERIES_MAX) -> None:
        self._samples_max = samples_max
        self._series_max = series_max
        self._series: dict[str, Series] = {}
        self._lock = threading.Lock()

    def add(self, at_ms: int, values: Mapping[str, float | None]) -> None:
        """None is a gap in the chart."""
        with self._lock:
            for name, value in values.items():
                series = self._series.pop(name, None) or Series(self._samples_max)
                self._series[name] = series  # last: the first ones are those without samples for the longest time
                series.add(at_ms, UNKNOWN if value is None else value)
            while len(self._series) > self._series_max:
                del self._series[next(iter(self._series))]

    def points(self, name: str) -> list[Point]:
        with self._lock:
            series = self._series.get(name)
            return series.points() if series else []

    def values(self, name: str) -> list[float]:
        with self._lock:
            series = self._series.get(name)
            return list(series.values()) if series else []

    def forget_others(self, prefix: str, names: Mapping[str, object]) -> None:
        """Forgets figures with this prefix whose subject is gone."""
        with self._lock:
            gone = [each for each in self._series if each.startswith(prefix) and each[len(prefix) :] not in names]
            for each in gone:
                del self._series[each]
