"""The MBeans of a snapshot: their names, their attributes, and the MBeans that match a pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from odradek.monitor.families import Families
from odradek.monitor.instruments import DistributionReading, MeterReading, TimerReading
from odradek.monitor.jolokia.object_name import ObjectName, Property, matcher, quoted
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Reading

Json = Any
Attributes = dict[str, Json]

PERCENTILE_NAMES = ("50th", "75th", "95th", "98th", "99th", "999th")
RATES = ("MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")
RATE_UNIT = {"RateUnit": "SECONDS"}
# As the timers of Kafka.
TIMER_EVENTS = "calls"


@dataclass(frozen=True, slots=True)
class MBean:
    domain: str
    properties: tuple[Property, ...]
    # Several metrics may be attributes of one MBean.
    metrics: list[Metric]
    attributes: Attributes

    @property
    def name(self) -> ObjectName:
        return ObjectName(self.domain, self.properties)


class Selection:
    """Decides whether the MBean of a reading matches. Most metrics are excluded before any of their readings."""

    __slots__ = ("_domain", "_is_open", "_values")

    def __init__(self, wanted: ObjectName) -> None:
        """Only patterns have wildcards: `*` in another name is escaped."""
        of = matcher if wanted.is_pattern else _equal_to
        self._domain = of(wanted.domain)
        self._values = {key: of(value) for key, value in wanted.properties}
        self._is_open = wanted.is_open

    def may_include(self, domain: str, fixed: dict[str, str], keys: tuple[str, ...]) -> bool:
        if not self._domain(domain) or (not self._is_open and not fixed.keys() <= self._values.keys()):
            return False
        return all(value(fixed[key]) if key in fixed else key in keys for key, value in self._values.items())

    def includes(self, own: tuple[Property, ...], fixed: dict[str, str]) -> bool:
        """`own`: the key properties that the labels of a reading add."""
        if len(self._values) > len(fixed) + len(own) or (
            not self._is_open and len(own) + len(fixed) > len(self._values)
        ):
            return False
        added = dict(own)
        return all(key in fixed or (key in added and value(added[key])) for key, value in self._values.items())


def selected(families: Families, wanted: ObjectName) -> Iterator[MBean | None]:
    """The matching MBeans, by parts: an MBean whose attributes are several metrics comes once for each.

    None for each reading that does not match.
    """
    selection = Selection(wanted)
    for metric, readings in families.items():
        domain, _, properties = metric.mbean.partition(":")
        fixed = dict(_pair(part) for part in properties.split(","))
        if not selection.may_include(domain, fixed, metric.mbean_keys):
            yield None
            continue
        first = tuple(fixed.items())
        for reading in readings:
            own = tuple(
                (key, quoted(label)) for key, label in zip(metric.mbean_keys, reading.labels, strict=True) if label
            )
            if selection.includes(own, fixed):
                yield MBean(domain, (*first, *own), [metric], attributes(reading))
            else:
                yield None


def attributes(reading: Reading) -> Attributes:
    """As Kafka's MBean of this kind has them."""
    metric, value = reading.metric, reading.value
    if isinstance(value, TimerReading):
        rates = _meter(value.meter, TIMER_EVENTS)
        return _distribution(value.distribution) | rates | {"LatencyUnit": "MILLISECONDS"}
    if isinstance(value, DistributionReading):
        return _distribution(value)
    if isinstance(value, MeterReading):
        return _meter(value, metric.unit)
    if isinstance(value, str):
        return {metric.mbean_attribute: value}
    return {metric.mbean_attribute: _number(value * metric.mbean_scale)}


def attribute_types(metric: Metric) -> dict[str, str]:
    """Java's type of each attribute."""
    meter = {"Count": "long"} | dict.fromkeys(RATES, "double") | {"RateUnit": "java.util.concurrent.TimeUnit"}
    meter["EventType"] = "java.lang.String"
    distribution = {"Count": "long"} | dict.fromkeys(("Min", "Max", "Mean", "StdDev"), "double")
    distribution |= {f"{name}Percentile": "double" for name in PERCENTILE_NAMES}
    if metric.kind is Kind.METER:
        return meter
    if metric.kind is Kind.HISTOGRAM:
        return distribution
    if metric.kind is Kind.TIMER:
        return distribution | meter | {"LatencyUnit": "java.util.concurrent.TimeUnit"}
    return {metric.mbean_attribute: "java.lang.Object" if metric.mbean_attribute == "Value" else "double"}


def _meter(value: MeterReading, event: str) -> Attributes:
    rates = (value.mean_rate, value.one_minute_rate, value.five_minute_rate, value.fifteen_minute_rate)
    return {"Count": value.count} | dict(zip(RATES, rates, strict=True)) | RATE_UNIT | {"EventType": event}


def _distribution(value: DistributionReading) -> Attributes:
    found: Attributes = {
        "Count": value.count,
        "Min": value.min,
        "Max": value.max,
        "Mean": value.mean,
        "StdDev": value.std_dev,
    }
    for name, percentile in zip(PERCENTILE_NAMES, value.percentiles, strict=True):
        found[f"{name}Percentile"] = percentile
    return found


def _number(value: float) -> int | float | None:
    """JSON has no NaN: Jolokia writes null."""
    if isinstance(value, int):
        return int(value)
    return value if math.isfinite(value) else None


def _pair(part: str) -> Property:
    key, _, value = part.partition("=")
    return key, value


def _equal_to(expected: str) -> Callable[[str], object]:
    return expected.__eq__
