"""Writes docs/metrics.md from the catalogue of metrics: `python tools/metrics.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from odradek.monitor.catalogue import all_metrics, modules
from odradek.monitor.metric import Kind, Metric

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

INTRODUCTION = """# Metrics

A metric of Kafka has the name that the usual JMX-exporter rules give it, so dashboards for Kafka show Odradek too.
Metrics that Kafka does not have begin with `odradek_`. `tools/metrics.py` writes this page.

A *meter* is a counter; its MBean also has rates. A *histogram* is a summary with the quantiles 0.5, 0.75, 0.95, 0.98,
0.99 and 0.999 of recent values, and with `_sum` and `_count`. A *timer* is both. A *state* is a gauge of 1 with the
label `state`.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for title, metrics in modules():
        parts += [f"## {title}\n", "| metric | kind, unit | meaning | MBean |", "|---|---|---|---|"]
        parts += [_row(metric) for metric in metrics]
        parts.append("")
    parts += ["## Alerts\n", "| alert | condition | for | severity |", "|---|---|---:|---|"]
    parts += [
        f"| {alert.name} | `{_in_cell(alert.expression)}` | {alert.for_seconds} s | {alert.severity.value} |"
        for metric in all_metrics()
        for alert in metric.alerts
    ]
    return "\n".join(parts) + "\n"


def _row(metric: Metric) -> str:
    name = f"`{metric.name}`" + "".join(f" `{label}`" for label in metric.labels)
    keys = "".join(f",{key}=…" for key in metric.mbean_keys)
    attribute = f" {metric.mbean_attribute}" if metric.kind in (Kind.GAUGE, Kind.COUNTER, Kind.STATE) else ""
    return (
        f"| {name} | {metric.kind.value}, {metric.unit} | {_in_cell(metric.help)} | `{metric.mbean}{keys}`{attribute} |"
    )


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
