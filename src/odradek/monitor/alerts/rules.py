"""A rule: a threshold on all series of a metric that match, and how long it must be crossed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.monitor.alerts.samples import Labels, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Each matching series is an alert of its own."""

    name: str
    metric: str
    # The whole value of a label must match. A label that is not named may have any value.
    labels: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    above: float | None = None
    below: float | None = None
    equal: float | None = None
    for_s: int = 0
    close_after_s: int = 0
    send: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        known = dict(labels)
        return all(pattern.fullmatch(known.get(name, "")) for name, pattern in self.labels.items())

    def is_crossed(self, sample: Sample) -> bool:
        """NaN crosses nothing."""
        if sample.name != self.metric or not self.matches(sample.labels):
            return False
        return (
            (self.above is not None and sample.value > self.above)
            or (self.below is not None and sample.value < self.below)
            or sample.value == self.equal
        )

    @property
    def condition(self) -> str:
        if self.equal is not None:
            return f"{self.metric} == {self.equal:g}"
        return f"{self.metric} {f'> {self.above:g}' if self.above is not None else f'< {self.below:g}'}"
