"""OTLP requests as OpenTelemetry's own classes read them."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from odradek.base import limits
from odradek.monitor.instruments import PERCENTILES
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.otlp import requests
from odradek.monitor.registry import Registry


def declared(kind, name, **more):
    return Metric(name=name, mbean=f"test:type={name}", kind=kind, unit="bytes", help="Text.", **more)


SENT = declared(Kind.METER, "sent_total", labels=("topic", "partition"))
LEVEL = declared(Kind.GAUGE, "level")
MODE = declared(Kind.STATE, "mode")
TIMES = declared(Kind.TIMER, "times", scale=0.001)


def sent(registry, **more):
    bodies = requests(registry.snapshot(), {"service.name": "odradek"}, version="1", started_ns=5, now_ns=9, **more)
    return [ExportMetricsServiceRequest.FromString(body) for body in bodies if body is not None]


def metrics_of(*parsed):
    return {metric.name: metric for each in parsed for metric in each.resource_metrics[0].scope_metrics[0].metrics}


def attributes_of(point):
    return {pair.key: pair.value.string_value for pair in point.attributes}


@pytest.fixture
def registry():
    return Registry(lambda: 1)


def test_request_names_the_process_and_the_scope(registry):
    (request,) = sent(registry)
    (resource,) = request.resource_metrics
    assert attributes_of(resource.resource) == {"service.name": "odradek"}
    assert resource.scope_metrics[0].scope.name == "odradek"


def test_counter_is_a_cumulative_sum_without_empty_labels(registry):
    registry.counter(SENT, "orders").count += 300
    metric = metrics_of(*sent(registry))["sent"]
    assert metric.unit == "{bytes}"
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = metric.sum.data_points
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (300, 5, 9)
    assert attributes_of(point) == {"topic": "orders"}


def test_gauges_are_integers_and_floats_and_a_state_is_an_attribute(registry):
    registry.gauge(LEVEL, lambda: -2.5)
    registry.gauge(MODE, lambda: "leader")
    metrics = metrics_of(*sent(registry))
    assert metrics["level"].gauge.data_points[0].as_double == -2.5
    (mode,) = metrics["mode"].gauge.data_points
    assert mode.as_int == 1
    assert attributes_of(mode) == {"state": "leader"}


def test_timer_is_a_summary(registry):
    registry.timer(TIMES).observe(4000)
    (point,) = metrics_of(*sent(registry))["times"].summary.data_points
    assert (point.count, point.sum) == (1, 4.0)
    assert [each.quantile for each in point.quantile_values] == list(PERCENTILES)
    assert point.quantile_values[0].value == 4.0


def test_requests_are_bounded_and_complete(registry, monkeypatch):
    monkeypatch.setattr("odradek.monitor.otlp.otlp_points_per_request_max", 20)
    monkeypatch.setattr("odradek.monitor.otlp.metric_readings_per_slice_max", 10)
    for partition in range(95):
        registry.counter(SENT, "orders", str(partition)).count = partition
    found = sent(registry)
    points = [[point for metric in metrics_of(each).values() for point in metric.sum.data_points] for each in found]
    assert all(len(each) <= 20 + 10 for each in points)
    partitions = {attributes_of(point).get("partition") for each in points for point in each}
    assert partitions >= {str(partition) for partition in range(95)}
    assert limits.otlp_points_per_request_max == 2_000
