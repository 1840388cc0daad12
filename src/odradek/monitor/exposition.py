"""A snapshot as text for Prometheus: its text format 0.0.4, or OpenMetrics 1.0 if the client prefers that.

A histogram of Kafka becomes a summary, with the labels that the usual JMX-exporter rules produce.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from odradek.base.limits import metric_readings_per_slice_max
from odradek.base.steps import Finished, advance
from odradek.monitor.families import Families, by_family
from odradek.monitor.instruments import PERCENTILES, DistributionReading, MeterReading, TimerReading
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Labels, Number, Reading, Snapshot

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_TYPES = {
    Kind.COUNTER: "counter",
    Kind.METER: "counter",
    Kind.GAUGE: "gauge",
    Kind.STATE: "gauge",
    Kind.HISTOGRAM: "summary",
    Kind.TIMER: "summary",
}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def content_type(accept: str) -> str:
    """The format to answer with, from the header Accept of the request."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for media_range in accept.split(","):
        media, *parameters = (part.strip() for part in media_range.split(";"))
        if media in best:
            best[media] = max(best[media], _quality(parameters))
    return OPEN_METRICS if best["application/openmetrics-text"] > best["text/plain"] else TEXT


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def exposition(snapshot: Snapshot, kind: str) -> Iterator[str]:
    """The text in pieces, each the work of one slice. `kind` is one of the content types above."""
    sorting = by_family(snapshot)
    while not isinstance(step := advance(sorting), Finished):
        yield ""
    lines = _lines(step.result, open_metrics=kind == OPEN_METRICS)
    while piece := list(islice(lines, metric_readings_per_slice_max)):
        yield "\n".join(piece) + "\n"


def _lines(families: Families, *, open_metrics: bool) -> Iterator[str]:
    for metric, readings in families.items():
        is_counter = metric.kind in (Kind.COUNTER, Kind.METER)
        family = metric.name.removesuffix("_total") if open_metrics and is_counter else metric.name
        yield f"# HELP {family} {metric.help.translate(_ESCAPES if open_metrics else _HELP_ESCAPES)}"
        yield f"# TYPE {family} {_TYPES[metric.kind]}"
        for reading in readings:
            if not reading.is_before_first_event:
                yield from _series(reading)
    if open_metrics:
        yield "# EOF"


def _series(reading: Reading) -> Iterable[str]:
    metric, labels, value = reading
    if isinstance(value, TimerReading):
        value = value.distribution
    if isinstance(value, DistributionReading):
        return _summary(metric, _label_pairs(metric, labels), value)
    if isinstance(value, MeterReading):
        value = value.count
    pairs = _label_pairs(metric, labels)
    if isinstance(value, str):
        pairs.append(f'state="{value.translate(_ESCAPES)}"')
        value = 1
    return (f"{metric.name}{_in_braces(pairs)} {_number(value)}",)


def _summary(metric: Metric, pairs: list[str], value: DistributionReading) -> Iterator[str]:
    for quantile, percentile in zip(PERCENTILES, value.percentiles, strict=True):
        with_quantile = [*pairs, f'quantile="{quantile}"']
        yield f"{metric.name}{_in_braces(with_quantile)} {_number(percentile)}"
    braces = _in_braces(pairs)
    yield f"{metric.name}_sum{braces} {_number(value.sum)}"
    yield f"{metric.name}_count{braces} {value.count}"


def _label_pairs(metric: Metric, labels: Labels) -> list[str]:
    return [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(metric.labels, labels, strict=True) if value]


def _in_braces(pairs: list[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
