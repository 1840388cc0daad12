"""The declaration of a metric: its names for Prometheus and JMX, its meaning, and the conditions to alert on."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """What is measured, and which attributes Kafka's MBean of this kind has."""

    COUNTER = "counter"  # a number that only grows; one attribute
    METER = "meter"  # the same with rates: Count, MeanRate, OneMinuteRate, FiveMinuteRate, FifteenMinuteRate
    GAUGE = "gauge"  # a number now; one attribute, usually Value
    STATE = "state"  # a word; for Prometheus the label `state` of a gauge that is 1
    HISTOGRAM = "histogram"  # a distribution: Count, Min, Max, Mean, StdDev, percentiles
    TIMER = "timer"  # both METER and HISTOGRAM


class Severity(enum.Enum):
    CRITICAL = "critical"  # data or availability is lost or about to be
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition that deserves attention. `expression` is PromQL; it must hold for `for_seconds`."""

    name: str
    expression: str
    for_seconds: int
    severity: Severity
    # What is wrong and what it means for users, in one sentence; what to do next. Both are templates of Prometheus.
    summary: str
    action: str


DEFAULT_ATTRIBUTES = {
    Kind.COUNTER: "Count",
    Kind.METER: "Count",
    Kind.GAUGE: "Value",
    Kind.STATE: "Value",
    Kind.HISTOGRAM: "",
    Kind.TIMER: "",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Metric:
    """A metric, declared once, in `catalogue`.

    A series whose label is the empty string lacks it, in Prometheus and in its MBean. So one declaration covers Kafka's
    metrics that exist for each topic and for all topics.
    """

    # As the usual JMX-exporter rules for Kafka derive it from the MBean.
    name: str
    # The MBean without the key properties that the labels add: `kafka.server:type=ReplicaManager,name=LeaderCount`.
    mbean: str
    kind: Kind
    # For a METER also its EventType: bytes, requests, messages.
    unit: str
    help: str
    attribute: str = ""
    # Names for Prometheus. `keys` are the key properties of the MBean, where they differ.
    labels: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    # A HISTOGRAM or TIMER multiplies what it observes by this: 1e-6 if it observes nanoseconds and shows milliseconds.
    scale: float = 1.0
    # What one `unit` is in the unit of the MBean attribute, where JMX uses another: 1e9 for seconds as nanoseconds.
    mbean_scale: int = 1
    # A series appears with its first event. The MBean of a METER too, as in Kafka, but that of a HISTOGRAM is there
    # before, with zeros.
    lazy: bool = False
    alerts: tuple[Alert, ...] = ()

    @property
    def mbean_attribute(self) -> str:
        """Empty for a HISTOGRAM or TIMER, which have many."""
        return self.attribute or DEFAULT_ATTRIBUTES[self.kind]

    @property
    def mbean_keys(self) -> tuple[str, ...]:
        return self.keys or self.labels
