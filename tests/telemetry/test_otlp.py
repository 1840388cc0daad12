"""Our decoder of OpenTelemetry's metrics against OpenTelemetry's own classes, and against bytes that are no metrics."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)

from odradek.base import limits
from odradek.base.protobuf import FieldReader, MalformedProtobuf
from odradek.telemetry.otlp import Kind, Point, TooManyPoints, points
from support.pushed_metrics import DELTA, counter, data, gauge, payload, point

TEXTS = st.text(max_size=20)
SCALARS = st.one_of(
    TEXTS, st.booleans(), st.integers(min_value=-(2**63), max_value=2**63 - 1), st.floats(allow_nan=False)
)
NUMBERS = st.one_of(st.integers(min_value=-(2**63), max_value=2**63 - 1), st.floats(allow_nan=False))
POINTS = st.builds(lambda value, labels: point(value, **labels), NUMBERS, st.dictionaries(TEXTS, SCALARS, max_size=3))
METRICS = st.one_of(
    st.builds(lambda name, found: gauge(name, *found), TEXTS, st.lists(POINTS, max_size=3)),
    st.builds(
        lambda name, found, temporality, monotonic: counter(
            name, *found, temporality=temporality, is_monotonic=monotonic
        ),
        TEXTS,
        st.lists(POINTS, max_size=3),
        st.sampled_from([0, 1, 2]),
        st.booleans(),
    ),
)


def as_text(value) -> str:
    kind = value.WhichOneof("value")
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    return repr(value.double_value) if kind == "double_value" else str(getattr(value, kind))


def expected(message: MetricsData) -> list[Point]:
    found = []
    for resource in message.resource_metrics:
        shared = tuple((each.key, as_text(each.value)) for each in resource.resource.attributes)
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            is_sum = metric.HasField("sum")
            values = metric.sum if is_sum else metric.gauge
            kind = Kind.COUNTER if is_sum and values.is_monotonic else Kind.GAUGE
            is_delta = is_sum and values.aggregation_temporality == DELTA
            for one in values.data_points:
                own = tuple((each.key, as_text(each.value)) for each in one.attributes)
                value = one.as_int if one.WhichOneof("value") == "as_int" else one.as_double
                found.append(Point(metric.name, kind, is_delta, shared + own, value))
    return found


@given(st.lists(METRICS, max_size=4), st.dictionaries(TEXTS, SCALARS, max_size=3))
def test_points_are_those_of_opentelemetrys_own_classes(metrics, resource):
    message = data(*metrics, **resource)
    assert points(memoryview(message.SerializeToString())) == expected(message)


def test_values_that_kafkas_clients_do_not_send_are_left_out():
    listed = KeyValue(key="list", value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="x")])))
    with_list = point(1, node="7")
    with_list.attributes.append(listed)
    histogram = Metric(name="h", histogram=Histogram(data_points=[HistogramDataPoint(count=3, sum=1.5)]))
    assert points(memoryview(payload(histogram, gauge("g", with_list)))) == [
        Point("g", Kind.GAUGE, False, (("node", "7"),), 1)
    ]


def test_a_resource_after_its_metrics_counts_too():
    late, early = data(gauge("g", point(1))), data(group="readers")
    swapped = b"".join(
        ResourceMetrics(scope_metrics=late.resource_metrics[0].scope_metrics).SerializeToString()
        + ResourceMetrics(resource=early.resource_metrics[0].resource).SerializeToString()
        for _ in range(1)
    )
    wrapped = b"\x0a" + bytes([len(swapped)]) + swapped
    (found,) = points(memoryview(wrapped))
    assert found.attributes == (("group", "readers"),)


@pytest.mark.parametrize(
    "broken",
    [
        b"\x0a",  # a length that is missing
        b"\x0a\x05abc",  # fewer bytes than announced
        b"\x0a\xff\xff\xff\xff\x0f",  # 4 GiB announced
        b"\x08" + b"\xff" * 11,  # a number without an end
        b"\x00\x01",  # the field number 0
        b"\x0b\x0c",  # a group
        b"\x0e",  # an unknown wire type
        b"\x08\x01",  # resource_metrics as a number
        b"\x09" + bytes(8),  # resource_metrics as 8 bytes
        b"\x0d" + bytes(3),  # 4 bytes announced, 3 are there
        payload(gauge("g", point(1))).replace(b"g", b"\xff"),  # a name that is not UTF-8
    ],
)
def test_broken_bytes_are_refused(broken):
    with pytest.raises(MalformedProtobuf):
        points(memoryview(broken))


def test_every_truncated_payload_is_refused_or_has_fewer_points():
    whole = payload(gauge("gauge", point(1.5, node="1"), point(2)), counter("sum", point(3, topic="t")), group="g")
    for size in range(len(whole)):
        with contextlib.suppress(MalformedProtobuf):
            assert len(points(memoryview(whole[:size]))) < 3


def test_random_changes_never_raise_anything_else():
    rng = random.Random(7)
    whole = payload(gauge("gauge", point(1.5, node="1"), point(2)), counter("sum", point(3, topic="t")), group="g")
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        with contextlib.suppress(MalformedProtobuf, TooManyPoints):
            points(memoryview(changed))


def test_points_are_bounded():
    most = limits.telemetry_points_max
    assert len(points(memoryview(payload(gauge("g", *[point(1)] * most))))) == most
    with pytest.raises(TooManyPoints):
        points(memoryview(payload(gauge("g", *[point(1)] * (most + 1)))))
    with pytest.raises(TooManyPoints):
        points(memoryview(payload(*[gauge("g", point(1))] * (most + 1))))


def test_fields_are_bounded_in_all_messages_together():
    with pytest.raises(TooManyPoints):
        points(memoryview(b"\x10\x00" * (limits.telemetry_fields_max + 1)))
    empty_scopes = ResourceMetrics(scope_metrics=[ScopeMetrics()] * (limits.telemetry_fields_max // 2))
    with pytest.raises(TooManyPoints):
        points(memoryview(MetricsData(resource_metrics=[empty_scopes] * 3).SerializeToString()))


def test_attributes_of_a_point_are_bounded():
    most = limits.telemetry_attributes_max
    labels = {f"l{number}": "x" for number in range(most + 1)}
    with pytest.raises(MalformedProtobuf, match="attributes"):
        points(memoryview(payload(gauge("g", point(1, **labels)))))


def test_a_reader_stops_at_its_last_field():
    reader = FieldReader(2)
    assert list(reader.fields(memoryview(b"\x08\x01\x10\x02"))) == [(1, 0, 1), (2, 0, 2)]
