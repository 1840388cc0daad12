"""Prometheus' own parsers read what is written."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from odradek.base import limits
from odradek.monitor.exposition import OPEN_METRICS, TEXT, content_type, exposition
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Reading, Registry

PARSERS = {TEXT: parse_text, OPEN_METRICS: parse_open_metrics}
AWKWARD = 'a "quoted" \\ name\nof two lines'


def metric(name: str, kind: Kind, *labels: str) -> Metric:
    return Metric(name=name, mbean="a:type=B", kind=kind, unit="x", help='Help with \\ and "quotes".', labels=labels)


BYTES = metric("a_bytes_total", Kind.METER, "topic")
TIME = metric("a_time_ms", Kind.HISTOGRAM, "request")
FLUSH = metric("a_flush_ms", Kind.TIMER)
SIZE = metric("a_size", Kind.GAUGE, "topic", "partition")
STATE = metric("a_state_info", Kind.STATE)


def parsed(registry: Registry, kind: str):
    text = "".join(exposition(registry.snapshot(), kind))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in PARSERS[kind](text)
        for sample in family.samples
    }


@pytest.mark.parametrize("kind", PARSERS)
def test_prometheus_reads_every_kind(kind):
    registry = Registry(lambda: 0)
    registry.counter(BYTES).count += 10
    registry.counter(BYTES, AWKWARD).count += 4
    for value in range(1, 101):
        registry.distribution(TIME, "Produce").observe(value)
    registry.timer(FLUSH).observe(7)
    registry.gauge(SIZE, lambda: 2.5, "t", "0")
    registry.gauge(SIZE, lambda: math.inf, "t", "1")
    registry.gauge(STATE, lambda: "leader")
    values = parsed(registry, kind)
    assert values["a_bytes_total", ()] == 10
    assert values["a_bytes_total", (("topic", AWKWARD),)] == 4
    assert values["a_time_ms_count", (("request", "Produce"),)] == 100
    assert values["a_time_ms_sum", (("request", "Produce"),)] == 5050
    assert values["a_time_ms", (("quantile", "0.99"), ("request", "Produce"))] == pytest.approx(99, rel=0.1)
    assert values["a_flush_ms", (("quantile", "0.5"),)] == 7
    assert values["a_size", (("partition", "0"), ("topic", "t"))] == 2.5
    assert values["a_size", (("partition", "1"), ("topic", "t"))] == math.inf
    assert values["a_state_info", (("state", "leader"),)] == 1


@pytest.mark.parametrize("kind", PARSERS)
def test_series_of_one_metric_from_several_callbacks_are_one_family(kind):
    registry = Registry(lambda: 0)
    registry.gauge(SIZE, lambda: 1, "t", "0")
    registry.gauge(STATE, lambda: "follower")
    registry.gauge(SIZE, lambda: 2, "t", "1")
    text = "".join(exposition(registry.snapshot(), kind))
    assert text.count("# TYPE a_size gauge") == 1
    assert parsed(registry, kind)["a_size", (("partition", "1"), ("topic", "t"))] == 2


def test_text_is_made_in_pieces_of_bounded_work():
    snapshot = [Reading(SIZE, ("t", str(number)), number) for number in range(5_000)]
    pieces = list(exposition(snapshot, TEXT))
    assert len(pieces) > 5_000 / limits.metric_readings_per_slice_max
    assert max(piece.count("\n") for piece in pieces) == limits.metric_readings_per_slice_max


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1", OPEN_METRICS),
        ("application/openmetrics-text; version=1.0.0, text/plain;q=0.5", OPEN_METRICS),
        ("application/openmetrics-text;q=0,text/plain", TEXT),
        ("application/openmetrics-text;q=wrong", TEXT),
        ("text/plain;version=0.0.4", TEXT),
    ],
)
def test_the_accept_header_chooses_the_format(accept, expected):
    assert content_type(accept) == expected
