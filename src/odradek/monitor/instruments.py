"""Instruments: counters whose update is one integer addition, meters, and distributions of bounded size.

An instrument is updated by one thread. Other threads may read it: each number is read at once, and a reading that mixes
two moments is off by the updates between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# The weight of a value falls by this rate a second, as in the reservoirs of Kafka's histograms: half after 46 s.
DECAY_PER_SECOND = 0.015
# Weights of new values grow instead of all others falling. They are divided by this when they have reached it.
WEIGHT_MAX = 1e100
# Each power of two is divided into this many buckets, so a percentile is exact to about 6 %.
_BUCKETS_BITS = 3
_BUCKETS = 1 << _BUCKETS_BITS

HALF_MINUTE_NS = 30_000_000_000
PERCENTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
MINUTES = (1, 5, 15)


class Counter:
    """A number that only grows: `counter.count += n`."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


@dataclass(frozen=True, slots=True)
class MeterReading:
    count: int
    mean_rate: float
    one_minute_rate: float
    five_minute_rate: float
    fifteen_minute_rate: float


class TickFactors(NamedTuple):
    """How much a tick moves the rates of 1, 5 and 15 minutes; shared by all meters of a registry."""

    seconds: float
    factors: tuple[float, float, float]

    @classmethod
    def of(cls, seconds: float) -> TickFactors:
        one, five, fifteen = (1 - math.exp(-seconds / 60 / minutes) for minutes in MINUTES)
        return cls(seconds, (one, five, fifteen))


class Meter(Counter):
    """A counter with the moving averages of its rate, which `tick` computes about every five seconds."""

    __slots__ = ("_created_s", "_last_count", "_rates")

    def __init__(self, now_s: float) -> None:
        super().__init__()
        self._created_s = now_s
        self._last_count = 0
        self._rates: tuple[float, float, float] | None = None

    def tick(self, passed: TickFactors) -> None:
        count = self.count
        rate = (count - self._last_count) / passed.seconds
        self._last_count = count
        if self._rates is None:
            self._rates = (rate, rate, rate)
        elif rate or any(self._rates):
            one, five, fifteen = self._rates
            by_one, by_five, by_fifteen = passed.factors
            self._rates = (
                one + by_one * (rate - one),
                five + by_five * (rate - five),
                fifteen + by_fifteen * (rate - fifteen),
            )

    def read(self, now_s: float) -> MeterReading:
        count = self.count
        age_s = now_s - self._created_s
        return MeterReading(count, count / age_s if age_s > 0 else 0.0, *(self._rates or (0.0, 0.0, 0.0)))


class PolledMeter(Meter):
    """The count and the rate of something that is counted elsewhere."""

    __slots__ = ("_poll",)

    def __init__(self, now_s: float, poll: Callable[[], int]) -> None:
        super().__init__(now_s)
        self._poll = poll
        self.count = self._last_count = poll()

    def poll(self) -> None:
        """Call it before `tick` and `read`."""
        self.count = self._poll()


class Decay:
    """The weight of values that are observed now; shared by all distributions of a registry."""

    __slots__ = ("_since_s", "weight")

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self.weight = 1.0

    def tick(self, now_s: float) -> float:
        """Returns a factor, usually 1. All distributions must multiply their weights by it."""
        self.weight = math.exp(min(DECAY_PER_SECOND * (now_s - self._since_s), 700.0))
        if self.weight < WEIGHT_MAX:
            return 1.0
        factor = 1 / self.weight
        self._since_s = now_s
        self.weight = 1.0
        return factor


@dataclass(frozen=True, slots=True)
class DistributionReading:
    """In the unit of the metric. Percentiles are in the order of PERCENTILES."""

    count: int
    sum: float
    min: float
    max: float
    mean: float
    std_dev: float
    percentiles: tuple[float, ...]


class TimerReading(NamedTuple):
    meter: MeterReading
    distribution: DistributionReading


class Distribution:
    """A distribution of integers: exact count, sum, minimum and maximum, and percentiles that favour recent values."""

    __slots__ = ("_buckets", "_counted", "_decay", "_max", "_min", "_observed", "_squares", "_sum")

    def __init__(self, decay: Decay, counted: Callable[[], int] | None = None) -> None:
        """`counted`: how many values there were, if not all are observed and the owner counts them."""
        self._decay = decay
        self._counted = counted
        # By bucket; at most some 500, of which a real distribution uses about 50.
        self._buckets: dict[int, float] = {}
        self._observed = 0
        self._sum = 0
        self._squares = 0.0
        self._min = 0
        self._max = 0

    def observe(self, value: int, stands_for: int = 1) -> None:
        """`stands_for`: how many values the owner has seen for each that it observes."""
        if value < _BUCKETS:
            value = max(value, 0)
            bucket = value
        else:
            shift = value.bit_length() - _BUCKETS_BITS - 1
            bucket = (shift << _BUCKETS_BITS) + (value >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0.0) + self._decay.weight * stands_for
        if value > self._max:
            self._max = value
        if value < self._min or not self._observed:
            self._min = value
        self._observed += stands_for
        self._sum += value * stands_for
        self._squares += float(value) * value * stands_for

    def rescale(self, factor: float) -> None:
        self._buckets = {bucket: weight * factor for bucket, weight in self._buckets.items()}

    @property
    def count(self) -> int:
        return self._observed if self._counted is None else self._counted()

    def read(self, scale: float = 1.0) -> DistributionReading:
        seen = self.count
        if not self._observed:
            return DistributionReading(seen, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,) * len(PERCENTILES))
        mean = self._sum / self._observed
        variance = max(0.0, self._squares / self._observed - mean * mean)
        return DistributionReading(
            seen,
            self._sum * scale,
            self._min * scale,
            self._max * scale,
            mean * scale,
            math.sqrt(variance) * scale,
            tuple(value * scale for value in self._percentiles()),
        )

    def _percentiles(self) -> list[float]:
        buckets = sorted(self._buckets.copy().items())
        total = math.fsum(weight for _, weight in buckets)
        found: list[float] = []
        below = 0.0
        rest = iter(PERCENTILES)
        wanted = next(rest)
        for bucket, weight in buckets:
            while below + weight >= wanted * total:
                low, width = _range_of(bucket)
                inside = (wanted * total - below) / weight if weight else 0.0
                found.append(min(max(low + inside * width, self._min), self._max))
                following = next(rest, None)
                if following is None:
                    return found
                wanted = following
            below += weight
        return found + [float(self._max)] * (len(PERCENTILES) - len(found))


class Recent:
    """Average and maximum of what was observed in the last 30 to 60 seconds, as in Kafka's sensors; NaN if nothing."""

    __slots__ = ("_before", "_began_ns", "_now")

    def __init__(self) -> None:
        self._began_ns = 0
        # Count, sum and maximum, of the current and of the previous half minute.
        self._now = self._before = (0, 0, 0)

    def observe(self, value: int, now_ns: int) -> None:
        self._turn(now_ns)
        count, total, largest = self._now
        self._now = (count + 1, total + value, max(largest, value))

    def average(self, now_ns: int) -> float:
        self._turn(now_ns)
        count = self._now[0] + self._before[0]
        return (self._now[1] + self._before[1]) / count if count else math.nan

    def maximum(self, now_ns: int) -> float:
        self._turn(now_ns)
        return max(self._now[2], self._before[2]) if self._now[0] + self._before[0] else math.nan

    def _turn(self, now_ns: int) -> None:
        passed_ns = now_ns - self._began_ns
        if passed_ns >= HALF_MINUTE_NS:
            self._before = self._now if passed_ns < 2 * HALF_MINUTE_NS else (0, 0, 0)
            self._now = (0, 0, 0)
            self._began_ns = now_ns


class Timer:
    """A distribution of durations, and the rate of their events."""

    __slots__ = ("_distribution", "_meter")

    def __init__(self, meter: Meter, distribution: Distribution) -> None:
        self._meter = meter
        self._distribution = distribution

    def observe(self, value: int) -> None:
        self._meter.count += 1
        self._distribution.observe(value)

    def tick(self, passed: TickFactors) -> None:
        self._meter.tick(passed)

    def rescale(self, factor: float) -> None:
        self._distribution.rescale(factor)

    def read(self, scale: float, now_s: float) -> TimerReading:
        return TimerReading(self._meter.read(now_s), self._distribution.read(scale))


def _range_of(bucket: int) -> tuple[int, int]:
    """The smallest value in a bucket, and how many integers it covers minus one."""
    if bucket < 2 * _BUCKETS:
        return bucket, 0
    shift = (bucket >> _BUCKETS_BITS) - 1
    return ((bucket & (_BUCKETS - 1)) + _BUCKETS) << shift, (1 << shift) - 1
