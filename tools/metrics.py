"""Writes docs/metrics.md, docs/alerts.md, alert rules and dashboard (deploy/) from the catalogue."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from odradek.monitor.catalogue import left_out, modules
from odradek.monitor.dashboard import dashboard
from odradek.monitor.metric import Alert, Kind, Metric
from odradek.monitor.rules import alert_groups, alert_rules

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "metrics.md"
ALERTS_PAGE = ROOT / "docs" / "alerts.md"
RULES = ROOT / "deploy" / "prometheus" / "odradek.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "odradek.json"

INTRODUCTION = """# Metrics

A metric of Kafka has the name that the usual JMX-exporter rules give it, so dashboards for Kafka show Odradek too.
Metrics that Kafka does not have begin with `odradek_`. `tools/metrics.py` writes this page.

A *meter* is a counter; its MBean also has rates. A *histogram* is a summary with the quantiles 0.5, 0.75, 0.95, 0.98,
0.99 and 0.999 of recent values, and with `_sum` and `_count`. A *timer* is both. A *state* is a gauge of 1 with the
label `state`.
"""

ALERTS_INTRODUCTION = """# Alerts

What each alert of `odradek metrics rules` means, and what to do. Its annotations `summary` and `description` have the
same text. Words in capitals stand for the labels of the alert, N for its value. `tools/metrics.py` writes this page.

[operations.md](operations.md#how-fast-an-alert-fires) shows which alerts a failure causes, and after how long.
"""

LEFT_OUT_INTRODUCTION = """## MBeans of Kafka that do not exist here

`*` stands for any text. `tests/interop/test_jolokia.py` checks that every other MBean and attribute of Kafka 4.3 exists
here too. MBeans of the Java virtual machine do not exist, except a few attributes of `java.lang` above.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for title, metrics in modules():
        parts += [f"## {title}\n", "| metric | kind, unit | meaning | MBean |", "|---|---|---|---|"]
        parts += [_row(metric) for metric in metrics]
        parts.append("")
    parts += [LEFT_OUT_INTRODUCTION, "| MBean | attributes | reason |", "|---|---|---|"]
    parts += [f"| `{each.mbean}` | {' '.join(each.attributes) or 'all'} | {each.reason} |" for each in left_out()]
    return "\n".join(parts) + "\n"


def alerts_page() -> str:
    """Every alert: its condition, what it means, and what to do."""
    parts = [ALERTS_INTRODUCTION]
    for title, alerts in alert_groups():
        parts.append(f"## {title}\n")
        parts += [_alert(alert) for alert in alerts]
    return "\n".join(parts)


def _alert(alert: Alert) -> str:
    lasts = f", for {alert.for_seconds} s" if alert.for_seconds else ""
    return (
        f"### {alert.name}\n\n{alert.severity.value.capitalize()}: `{alert.expression}`{lasts}\n\n"
        f"{_plain(alert.summary)} {_plain(alert.action)}\n"
    )


def _plain(template: str) -> str:
    """With the names of labels in capitals in place of their values."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: label[1].upper(), template)
    return re.sub(r"\{\{ \$value \| \w+ \}\}B?", "N", text)


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
    for path, text in (
        (PAGE, page()),
        (ALERTS_PAGE, alerts_page()),
        (RULES, alert_rules()),
        (DASHBOARD, json.dumps(dashboard(), indent=1) + "\n"),
    ):
        path.write_text(text)
        sys.stdout.write(f"wrote {path}\n")
