"""Alert rules for Prometheus, generated from the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from odradek.monitor.catalogue import modules
from odradek.monitor.metric import Alert, Metric, Severity

# Prometheus makes the metric `up` itself, so that the catalogue has no declaration for it.
TARGET_DOWN = Alert(
    name="TargetDown",
    expression="up == 0",
    for_seconds=60,
    severity=Severity.CRITICAL,
    summary="The metrics of {{ $labels.instance }} cannot be read: the process is down or cannot be reached.",
    action=(
        "If the process has ended, the end of its log says why: start it again. If a node runs, open /healthz at this "
        "address: 503 means that its event loop is stuck, so restart it; no answer means a wrong address, "
        "`http.listener` or firewall."
    ),
)

# How Prometheus writes the value of an alert, by the unit of its metric: 11e9 bytes as 10.24GiB, 12000 as 12k.
_VALUE = "{{ $value }}"
_VALUE_OF_UNIT = {"bytes": "{{ $value | humanize1024 }}B", "seconds": "{{ $value | humanizeDuration }}"}
_VALUE_OTHERWISE = "{{ $value | humanize }}"


def alert_groups() -> Iterator[tuple[str, tuple[Alert, ...]]]:
    """Groups that have alerts, by title."""
    yield "Scraping", (TARGET_DOWN,)
    for title, metrics in modules():
        alerts = tuple(with_readable_value(alert, metric) for metric in metrics for alert in metric.alerts)
        if alerts:
            yield title, alerts


def with_readable_value(alert: Alert, metric: Metric) -> Alert:
    """In the unit of `metric`."""
    value = _VALUE_OF_UNIT.get(metric.unit, _VALUE_OTHERWISE)
    return replace(alert, summary=alert.summary.replace(_VALUE, value), action=alert.action.replace(_VALUE, value))


def alert_rules(time_factor: float = 1.0) -> str:
    """A rules file in YAML. `time_factor` multiplies how long conditions must hold; a test uses a small one."""
    lines = ["# Written by `odradek metrics rules`.", "groups:"]
    for title, alerts in alert_groups():
        lines += [f"  - name: {_text(f'Odradek: {title}')}", "    rules:"]
        for alert in alerts:
            lines += _rule(alert, time_factor)
    return "\n".join(lines) + "\n"


def _rule(alert: Alert, time_factor: float) -> list[str]:
    for_ms = round(alert.for_seconds * time_factor * 1000)
    return [
        f"      - alert: {alert.name}",
        f"        expr: {_text(alert.expression)}",
        f"        for: {f'{for_ms // 1000}s' if for_ms % 1000 == 0 else f'{for_ms}ms'}",
        "        labels:",
        f"          severity: {alert.severity.value}",
        "        annotations:",
        f"          summary: {_text(alert.summary)}",
        f"          description: {_text(alert.action)}",
    ]


def _text(text: str) -> str:
    """JSON strings are YAML strings."""
    return json.dumps(text, ensure_ascii=False)
