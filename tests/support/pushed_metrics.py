"""Telemetry as clients push it, made with OpenTelemetry's own classes."""

from __future__ import annotations

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

DELTA, CUMULATIVE = 1, 2


def attributes(values) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in values.items()]


def _any(value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def point(value, /, **labels) -> NumberDataPoint:
    fields = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    return NumberDataPoint(time_unix_nano=1, attributes=attributes(labels), **fields)


def gauge(name, *points) -> Metric:
    return Metric(name=name, description="a gauge", unit="1", gauge=Gauge(data_points=points))


def counter(name, *points, temporality=CUMULATIVE, is_monotonic=True) -> Metric:
    data = Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=is_monotonic)
    return Metric(name=name, sum=data)


def data(*metrics, **resource) -> MetricsData:
    scopes = [ScopeMetrics(metrics=metrics)]
    return MetricsData(
        resource_metrics=[ResourceMetrics(resource=Resource(attributes=attributes(resource)), scope_metrics=scopes)]
    )


def payload(*metrics, **resource) -> bytes:
    return data(*metrics, **resource).SerializeToString()
