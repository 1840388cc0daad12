"""A Grafana dashboard, generated from the catalogue: a row for each of its modules, a panel for each metric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.monitor.catalogue import modules, partitions
from odradek.monitor.metric import Kind, Metric

UID = "odradek"
# Grafana's grid has 24 columns.
_PANEL_WIDTH, _PANEL_HEIGHT, _COLUMNS = 8, 7, 24
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Units of the catalogue as Grafana names them; others are shown as plain numbers.
_UNITS = {
    "bytes": "bytes",
    "seconds": "s",
    "milliseconds": "ms",
    "ms": "ms",
    "percent": "percent",
    "ratio": "percentunit",
    "bytes/second": "Bps",
}
_RATE_UNITS = {"bytes": "Bps"}
_SELECTED = '{job=~"$job", instance=~"$instance"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    description: str
    query: str
    legend: str
    unit: str


def panels() -> Iterator[tuple[str, tuple[Panel, ...]]]:
    """By the title of their row."""
    yield (
        "Overview",
        (
            Panel(
                title="Firing alerts",
                description="Alerts of the rules that `odradek metrics rules` prints.",
                query='sum by (alertname, severity) (ALERTS{alertstate="firing"}) or vector(0)',
                legend="{{alertname}} {{severity}}",
                unit="short",
            ),
            Panel(
                title="Processes that answer",
                description="1 while Prometheus can read the metrics of a process.",
                query=f"up{_SELECTED}",
                legend="{{job}} {{instance}}",
                unit="short",
            ),
        ),
    )
    for title, metrics in modules():
        # A panel with a line for each of thousands of partitions shows nothing.
        if partitions.SIZE not in metrics:
            yield title, tuple(_panel(metric) for metric in metrics)


def _panel(metric: Metric) -> Panel:
    labels = ("instance", *metric.labels)
    unit = _UNITS.get(metric.unit, "short")
    if metric.kind in (Kind.COUNTER, Kind.METER):
        query = f"sum by ({', '.join(labels)}) (rate({metric.name}{_SELECTED}[$__rate_interval]))"
        title, unit = f"{metric.name}, per second", _RATE_UNITS.get(metric.unit, "short")
    elif metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
        query = f'{metric.name}{{job=~"$job", instance=~"$instance", quantile="0.99"}}'
        title = f"{metric.name}, 99th percentile"
    else:
        query, title = f"{metric.name}{_SELECTED}", metric.name
        if metric.kind is Kind.STATE:
            labels = (*labels, "state")
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    return Panel(title=title, description=f"{metric.help} Unit: {metric.unit}.", query=query, legend=legend, unit=unit)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it. Rows other than the first are collapsed and load when opened."""
    drawn: list[dict[str, Any]] = []
    numbers = iter(range(1, 100_000))
    top = 0
    for title, row in panels():
        is_first = not drawn
        row_panel = {
            "id": next(numbers),
            "type": "row",
            "title": title,
            "collapsed": not is_first,
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
        }
        inside = [_drawn(panel, next(numbers), place, top + 1) for place, panel in enumerate(row)]
        drawn += [{**row_panel, "panels": []}, *inside] if is_first else [{**row_panel, "panels": inside}]
        top += 1 + (_PANEL_HEIGHT * -(-len(row) * _PANEL_WIDTH // _COLUMNS) if is_first else 0)
    return {
        "uid": UID,
        "title": "Odradek",
        "description": "Written by `odradek metrics dashboard`.",
        "tags": ["odradek", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_data_source(), _variable("job", "up", "job"), _instances()]},
        "panels": drawn,
    }


def _drawn(panel: Panel, number: int, place: int, top: int) -> dict[str, Any]:
    across = _COLUMNS // _PANEL_WIDTH
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA_SOURCE,
        "gridPos": {
            "x": place % across * _PANEL_WIDTH,
            "y": top + place // across * _PANEL_HEIGHT,
            "w": _PANEL_WIDTH,
            "h": _PANEL_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": "A", "datasource": _DATA_SOURCE, "expr": panel.query, "legendFormat": panel.legend},
        ],
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _instances() -> dict[str, Any]:
    return _variable("instance", 'up{job=~"$job"}', "instance")


def _variable(name: str, series: str, label: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": f"label_values({series}, {label})",
        "definition": f"label_values({series}, {label})",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
