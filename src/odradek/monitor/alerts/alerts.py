"""The state of all alerts: waits until a threshold was crossed for long enough, opens, and closes.

A step takes the samples of all sources and returns the notices that must be sent: one when an alert opens, one when it
closes. A source that cannot be read changes nothing: an alert must not close because its broker is down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from odradek.monitor.alerts.rules import Rule
from odradek.monitor.alerts.samples import Labels, Sample


class Change(StrEnum):
    OPENED = "open"
    CLOSED = "closed"


class Key(NamedTuple):
    rule: str
    source: str
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An alert that is open. It survives a restart."""

    key: Key
    opened_ms: int
    condition: str
    send: tuple[str, ...]
    value: float  # when it opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    change: Change
    alert: Opened
    at_ms: int
    value: float | None  # None when the series is gone

    @property
    def id(self) -> str:
        """The same after a restart, so that a receiver can recognise a message that it got twice."""
        labels = ",".join(f"{name}={value}" for name, value in self.alert.key.labels)
        return f"{self.alert.key.rule}/{self.alert.key.source}/{labels}/{self.alert.opened_ms}/{self.change.value}"


class Alerts:
    def __init__(self, rules: Sequence[Rule], opened: Iterable[Opened] = ()) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._open = {alert.key: alert for alert in opened}
        # When the threshold was crossed, and not yet for long enough.
        self._crossed_ms: dict[Key, int] = {}
        # When an open alert was seen below its threshold, and not yet for long enough.
        self._calm_ms: dict[Key, int] = {}

    @property
    def opened(self) -> list[Opened]:
        return list(self._open.values())

    @property
    def crossed_ms(self) -> Mapping[Key, int]:
        """Since when thresholds are crossed, also where not yet for long enough."""
        return dict(self._crossed_ms)

    def step(self, now_ms: int, sources: Mapping[str, Sequence[Sample] | None]) -> list[Notice]:
        """`sources` has the samples of each source, or None if it could not be read."""
        crossed = self._crossed(sources)
        unknown = {source for source, samples in sources.items() if samples is None}
        notices = [self._close(alert, now_ms, None) for alert in self.opened if alert.key.rule not in self._rules]
        for key, value in crossed.items():
            self._calm_ms.pop(key, None)
            since_ms = self._crossed_ms.setdefault(key, now_ms)
            rule = self._rules[key.rule]
            if key not in self._open and now_ms - since_ms >= rule.for_s * 1000:
                notices.append(self._open_now(key, rule, now_ms, value))
        for key in [key for key in self._crossed_ms if key not in crossed and key.source not in unknown]:
            del self._crossed_ms[key]
        values = self._values(sources)
        for alert in self.opened:
            if alert.key in crossed or alert.key.source in unknown:
                continue
            calm_ms = self._calm_ms.setdefault(alert.key, now_ms)
            if now_ms - calm_ms >= self._rules[alert.key.rule].close_after_s * 1000:
                notices.append(self._close(alert, now_ms, values.get(alert.key)))
        return notices

    def _crossed(self, sources: Mapping[str, Sequence[Sample] | None]) -> dict[Key, float]:
        return {
            Key(rule.name, source, sample.labels): sample.value
            for source, samples in sources.items()
            for sample in samples or ()
            for rule in self._rules.values()
            if rule.is_crossed(sample)
        }

    def _values(self, sources: Mapping[str, Sequence[Sample] | None]) -> dict[Key, float]:
        """The current values of the series of open alerts."""
        if not self._open:
            return {}
        return {
            key: sample.value
            for source, samples in sources.items()
            for sample in samples or ()
            for rule in self._rules.values()
            if sample.name == rule.metric and (key := Key(rule.name, source, sample.labels)) in self._open
        }

    def _open_now(self, key: Key, rule: Rule, now_ms: int, value: float) -> Notice:
        alert = Opened(key=key, opened_ms=now_ms, condition=rule.condition, send=rule.send, value=value)
        self._open[key] = alert
        return Notice(change=Change.OPENED, alert=alert, at_ms=now_ms, value=value)

    def _close(self, alert: Opened, now_ms: int, value: float | None) -> Notice:
        del self._open[alert.key]
        self._calm_ms.pop(alert.key, None)
        return Notice(change=Change.CLOSED, alert=alert, at_ms=now_ms, value=value)
