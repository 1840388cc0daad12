"""The registry of a process: its instruments, its callbacks, and the snapshot of all of them.

A snapshot is collected in slices of bounded work, so that a process with many series can answer requests in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from odradek.base.invariants import invariant
from odradek.base.limits import metric_readings_per_slice_max, metric_series_max
from odradek.base.steps import Steps
from odradek.monitor.catalogue.monitoring import READINGS_FAILED, SERIES_DROPPED
from odradek.monitor.instruments import (
    Counter,
    Decay,
    Distribution,
    DistributionReading,
    Meter,
    MeterReading,
    PolledMeter,
    TickFactors,
    Timer,
    TimerReading,
)
from odradek.monitor.metric import Kind, Metric

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Percentiles take this many times longer to compute than other readings.
MORE_WORK_OF_DISTRIBUTION = 15

Number = int | float
Value = Number | str | MeterReading | DistributionReading | TimerReading
Labels = tuple[str, ...]


class Reading(NamedTuple):
    """One series at one moment. `labels` has a value for each label of the metric."""

    metric: Metric
    labels: Labels
    value: Value

    @property
    def is_before_first_event(self) -> bool:
        """Only MBeans show it."""
        return self.metric.lazy and isinstance(self.value, DistributionReading) and not self.value.count


Snapshot = list[Reading]
# Yields readings, and None for each piece of work without one. It runs while the process changes what it reads, so it
# must not iterate over a dict or set that may change: copy it first.
Source = Callable[[], Iterable[Reading | None]]


Kept = TypeVar("Kept", Counter, Distribution, Timer)


class _Families(Generic[Kept]):
    """All instruments of one class, by metric and labels."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: dict[Metric, dict[Labels, Kept]] = {}

    def family(self, metric: Metric) -> dict[Labels, Kept]:
        return self.all.setdefault(metric, {})

    def __iter__(self) -> Iterator[tuple[Metric, Labels, Kept]]:
        """Instruments may be added meanwhile."""
        for metric, family in list(self.all.items()):
            for labels, instrument in list(family.items()):
                yield metric, labels, instrument


class Registry:
    """`now_ns` is a monotonic clock. The owner runs `tick` about every five seconds, for rates and percentiles."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._ticked_s = self._now_s()
        self._decay = Decay(self._ticked_s)
        self._counters: _Families[Counter] = _Families()
        self._distributions: _Families[Distribution] = _Families()
        self._timers: _Families[Timer] = _Families()
        self._series = 0
        self._polled: list[PolledMeter] = []
        self._sources: list[Source] = []
        self._broken: set[object] = set()
        self._failed = self.counter(READINGS_FAILED)
        self._dropped = self.counter(SERIES_DROPPED)

    def _now_s(self) -> float:
        return self._now_ns() / 1e9

    # Instruments: the same object for the same labels, made at the first call. Keep it: finding it costs more than
    # updating it. Labels that are not given are empty.

    def counter(self, metric: Metric, *labels: str) -> Counter:
        """The instrument of a COUNTER or METER: `counter.count += n`."""
        invariant(metric.kind in (Kind.COUNTER, Kind.METER), f"{metric.name} is not counted")
        if metric.kind is Kind.METER:
            return self._instrument(self._counters, metric, labels, lambda: Meter(self._now_s()))
        return self._instrument(self._counters, metric, labels, Counter)

    def counted(self, metric: Metric, count: Callable[[], int], *labels: str) -> None:
        """A METER of something that is counted elsewhere: `count` is called for each snapshot and each tick."""
        invariant(metric.kind is Kind.METER, f"{metric.name} is no meter")
        self._instrument(self._counters, metric, labels, lambda: PolledMeter(self._now_s(), count))

    def distribution(self, metric: Metric, *labels: str, counted: Callable[[], int] | None = None) -> Distribution:
        """The instrument of a HISTOGRAM: `distribution.observe(n)`. `metric.scale` converts n to the metric's unit."""
        invariant(metric.kind is Kind.HISTOGRAM, f"{metric.name} is no histogram")
        return self._instrument(self._distributions, metric, labels, lambda: Distribution(self._decay, counted))

    def timer(self, metric: Metric, *labels: str) -> Timer:
        invariant(metric.kind is Kind.TIMER, f"{metric.name} is no timer")
        return self._instrument(
            self._timers, metric, labels, lambda: Timer(Meter(self._now_s()), Distribution(self._decay))
        )

    def forget(self, metric: Metric, *labels: str) -> None:
        """Removes the instrument of a subject that is gone: a deleted topic, a client that has left."""
        for families in (self._counters, self._distributions, self._timers):
            family: dict[Labels, Any] | None = families.all.get(metric)
            if family is not None and family.pop(_all_labels(metric, labels), None) is not None:
                self._series -= 1

    def _instrument(self, families: _Families[Kept], metric: Metric, labels: Labels, new: Callable[[], Kept]) -> Kept:
        given = _all_labels(metric, labels)
        family = families.family(metric)
        known = family.get(given)
        if known is None:
            known = new()
            if self._series >= metric_series_max:
                self._dropped.count += 1
            else:
                self._series += 1
                family[given] = known
        return known

    # Callbacks

    def gauge(self, metric: Metric, read: Callable[[], Number | str], *labels: str) -> None:
        """`read` is called for each snapshot. Also for a COUNTER or STATE that something else keeps."""
        given = _all_labels(metric, labels)
        self._sources.append(lambda: (Reading(metric, given, read()),))

    def gauges(self, metric: Metric, read: Callable[[], Iterable[tuple[Labels, Number]]]) -> None:
        """One callback for all series of a metric."""
        self._sources.append(lambda: (Reading(metric, labels, value) for labels, value in read()))

    def rate(self, metric: Metric, count: Callable[[], int], *labels: str, scale: float = 1.0) -> None:
        """A gauge: by how much `count`, times `scale`, grew per second in the last minute."""
        polled = PolledMeter(self._now_s(), count)
        self._polled.append(polled)
        self.gauge(metric, lambda: polled.read(self._now_s()).one_minute_rate * scale, *labels)

    def source(self, read: Source) -> None:
        """One callback for several metrics."""
        self._sources.append(read)

    # Reading

    def collect(self) -> Steps[Snapshot]:
        """Yields after each slice how many readings it has made or tried."""
        snapshot: Snapshot = []
        work = 0
        for source in (self._instruments_read, *self._sources):
            for reading in self._readings(source):
                work += 1
                if reading is not None:
                    snapshot.append(reading)
                    if isinstance(reading.value, DistributionReading | TimerReading):
                        work += 0 if reading.is_before_first_event else MORE_WORK_OF_DISTRIBUTION
                if work >= metric_readings_per_slice_max:
                    yield work
                    work = 0
        return snapshot

    def snapshot(self) -> Snapshot:
        """All slices at once."""
        return run_at_once(self.collect())

    def tick(self) -> Steps[None]:
        """Computes the rates of all meters, in slices."""
        now_s = self._now_s()
        passed_s = now_s - self._ticked_s
        if passed_s <= 0:
            return
        self._ticked_s = now_s
        factor = self._decay.tick(now_s)
        factors = TickFactors.of(passed_s)
        for polled in self._polled:
            if self._has_polled(polled):
                polled.tick(factors)
        for work, (_, _, instrument) in enumerate(chain(self._counters, self._distributions, self._timers), 1):
            if isinstance(instrument, Meter | Timer) and self._has_polled(instrument):
                instrument.tick(factors)
            if factor != 1.0 and isinstance(instrument, Distribution | Timer):
                instrument.rescale(factor)
            if work % metric_readings_per_slice_max == 0:
                yield metric_readings_per_slice_max

    def _readings(self, source: Source) -> Iterator[Reading | None]:
        """A callback that fails must not hide all other metrics: it is counted, and logged once."""
        try:
            yield from source()
        except Exception:  # noqa: BLE001 (it is counted and logged)
            self._note_broken(source)

    def _has_polled(self, instrument: Counter | Timer) -> bool:
        """False if it cannot be read. True also for an instrument that is not polled."""
        if isinstance(instrument, PolledMeter):
            try:
                instrument.poll()
            except Exception:  # noqa: BLE001 (as above)
                self._note_broken(instrument)
                return False
        return True

    def _note_broken(self, part: object) -> None:
        self._failed.count += 1
        if part not in self._broken:
            self._broken.add(part)
            logger.exception("a metric cannot be read; snapshots are without it while this lasts")

    def _instruments_read(self) -> Iterator[Reading | None]:
        now_s = self._now_s()
        for metric, labels, counter in self._counters:
            if not self._has_polled(counter) or (metric.lazy and not counter.count):
                yield None
                continue
            yield Reading(metric, labels, counter.read(now_s) if isinstance(counter, Meter) else counter.count)
        for metric, labels, distribution in self._distributions:
            yield Reading(metric, labels, distribution.read(metric.scale))
        for metric, labels, timer in self._timers:
            yield Reading(metric, labels, timer.read(metric.scale, now_s))


def _all_labels(metric: Metric, labels: Sequence[str]) -> Labels:
    missing = len(metric.labels) - len(labels)
    invariant(missing >= 0, f"{metric.name} has the labels {metric.labels}")
    return (*labels, *("",) * missing)


def run_at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
