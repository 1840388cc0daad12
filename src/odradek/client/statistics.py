"""The metrics of one client, and of all open clients of this process.

librdkafka reports as JSON every five seconds (`statistics_interval_ms`; 0 turns it off). A report is kept as text and
read only when the metrics are asked for, so that it costs next to nothing otherwise.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakSet

import msgspec

from odradek.base.limits import client_metric_topics_max
from odradek.client.librdkafka_report import Report, ReportReading
from odradek.monitor.registry import Number, Reading

INTERVAL = "statistics.interval.ms"
INTERVAL_MS = 5_000
# A rate covers between one and two of these, or the time since the start of the client.
RATE_WINDOW_S = 30.0


class MetricName(NamedTuple):
    """As in Java's client: `name` as "record-send-rate", `group` as "producer-metrics", `tags` as ("client-id", …)."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]


class _Kept(NamedTuple):
    at_s: float
    report: str
    failed: int


class Statistics:
    """Holds no reference to its client: librdkafka keeps it as a callback."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Rates compare the latest report with an earlier one. Without an earlier one, they compare it with the start of
        # the client, when every counter was 0: a producer may have sent everything before its first report.
        self._latest: _Kept | None = None
        self._earlier: _Kept | None = None
        # The next earlier one.
        self._middle: _Kept | None = None
        self._middle_at_s = time.monotonic()
        self._failed: Counter[str] = Counter()
        _open.add(self)

    def reported(self, report: str) -> None:
        """Runs in any thread that polls the client."""
        kept = _Kept(time.monotonic(), report, sum(dict(self._failed).values()))
        with self._lock:
            self._latest = kept
            if kept.at_s - self._middle_at_s >= RATE_WINDOW_S:
                self._earlier, self._middle, self._middle_at_s = self._middle, kept, kept.at_s

    def failed(self, topic: str) -> None:
        """A record of this topic was not delivered."""
        if topic in self._failed or len(self._failed) < client_metric_topics_max:
            self._failed[topic] += 1

    def end(self) -> None:
        _open.discard(self)

    def readings(self) -> Iterator[Reading]:
        with self._lock:
            latest, earlier = self._latest, self._earlier
        if latest is None:
            return
        yield from ReportReading(
            _decoded(latest),
            None if earlier is None else _decoded(earlier),
            dict(self._failed),
            0 if earlier is None else earlier.failed,
        ).readings()

    def metrics(self) -> dict[MetricName, Number]:
        """Empty before the first report."""
        return {
            _java_name(reading): reading.value for reading in self.readings() if isinstance(reading.value, int | float)
        }


_open: WeakSet[Statistics] = WeakSet()


def of_open_clients() -> Iterator[Reading]:
    for statistics in list(_open):
        yield from statistics.readings()


def _decoded(kept: _Kept) -> Report:
    report: Report = msgspec.json.decode(kept.report)
    return report


def _java_name(reading: Reading) -> MetricName:
    metric = reading.metric
    group = metric.mbean.partition(":type=")[2]
    tags = tuple((key, value) for key, value in zip(metric.mbean_keys, reading.labels, strict=True) if value)
    return MetricName(metric.mbean_attribute, group, tags)
