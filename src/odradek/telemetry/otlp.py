"""The points of OpenTelemetry's MetricsData (v1), which clients push: gauges and sums.

Other kinds of metrics (histograms, summaries) and attributes that are lists are left out: Kafka's clients have none.
The numbers of points, attributes and fields are limited, so a payload costs a bounded amount of time and memory.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from odradek.base import limits
from odradek.base.protobuf import (
    FieldReader,
    MalformedProtobuf,
    ProtoField,
    TooManyFields,
    bytes_of,
    double_of,
    number_of,
    sfixed64_of,
    signed_of,
    text_of,
)

Attributes = tuple[tuple[str, str], ...]

# Field numbers, by message.
_DATA_RESOURCE_METRICS = 1
_RESOURCE_METRICS_RESOURCE, _RESOURCE_METRICS_SCOPES = 1, 2
_RESOURCE_ATTRIBUTES = 1
_SCOPE_METRICS = 2
_METRIC_NAME, _METRIC_GAUGE, _METRIC_SUM = 1, 5, 7
_SUM_POINTS, _SUM_TEMPORALITY, _SUM_IS_MONOTONIC = 1, 2, 3
_POINT_DOUBLE, _POINT_INTEGER, _POINT_ATTRIBUTES = 4, 6, 7
_KEY, _VALUE = 1, 2

_DELTA = 1


class Kind(IntEnum):
    GAUGE = 0
    COUNTER = 1  # a sum that never decreases


class Point(NamedTuple):
    name: str
    kind: Kind
    # The value counts from the previous push, not from the start of the client.
    is_delta: bool
    # The attributes of the point and of its resource.
    attributes: Attributes
    value: float


class TooManyPoints(Exception):
    """More points, or more parts of points, than a push may have."""


def points(payload: memoryview) -> list[Point]:
    """Raises MalformedProtobuf or TooManyPoints."""
    reader = _MetricsReader(limits.telemetry_fields_max)
    try:
        for field in reader.fields(payload):
            if field[0] == _DATA_RESOURCE_METRICS:
                reader.resource_metrics(bytes_of(field))
    except TooManyFields as many:
        raise TooManyPoints from many
    return reader.points


class _MetricsReader(FieldReader):
    __slots__ = ("points",)

    def __init__(self, fields_max: int) -> None:
        super().__init__(fields_max)
        self.points: list[Point] = []

    def resource_metrics(self, message: memoryview) -> None:
        scopes = []
        shared: Attributes = ()
        for field in self.fields(message):
            if field[0] == _RESOURCE_METRICS_RESOURCE:
                shared = self._attributes(bytes_of(field), _RESOURCE_ATTRIBUTES)
            elif field[0] == _RESOURCE_METRICS_SCOPES:
                scopes.append(bytes_of(field))
        for scope in scopes:
            for field in self.fields(scope):
                if field[0] == _SCOPE_METRICS:
                    self._metric(bytes_of(field), shared)

    def _metric(self, message: memoryview, shared: Attributes) -> None:
        name, data = "", None
        for field in self.fields(message):
            if field[0] == _METRIC_NAME:
                name = text_of(field)
            elif field[0] in (_METRIC_GAUGE, _METRIC_SUM):
                data = field
        if data is None:
            return
        values = []
        temporality = is_monotonic = 0
        for field in self.fields(bytes_of(data)):
            if field[0] == _SUM_POINTS:
                values.append(bytes_of(field))
            elif field[0] == _SUM_TEMPORALITY:
                temporality = number_of(field)
            elif field[0] == _SUM_IS_MONOTONIC:
                is_monotonic = number_of(field)
        if len(self.points) + len(values) > limits.telemetry_points_max:
            raise TooManyPoints
        is_sum = data[0] == _METRIC_SUM
        kind = Kind.COUNTER if is_sum and is_monotonic else Kind.GAUGE
        for value in values:
            self._point(value, name, kind, is_sum and temporality == _DELTA, shared)

    def _point(self, message: memoryview, name: str, kind: Kind, is_delta: bool, shared: Attributes) -> None:
        value: float = 0.0
        for field in self.fields(message):
            if field[0] == _POINT_DOUBLE:
                value = double_of(field)
            elif field[0] == _POINT_INTEGER:
                value = sfixed64_of(field)
        attributes = shared + self._attributes(message, _POINT_ATTRIBUTES)
        self.points.append(Point(name, kind, is_delta, attributes, value))

    def _attributes(self, message: memoryview, number: int) -> Attributes:
        """The repeated KeyValue field `number` of a message."""
        found: list[tuple[str, str]] = []
        for field in self.fields(message):
            if field[0] != number:
                continue
            if len(found) >= limits.telemetry_attributes_max:
                raise MalformedProtobuf(f"more than {limits.telemetry_attributes_max} attributes")
            key, value = "", None
            for part in self.fields(bytes_of(field)):
                if part[0] == _KEY:
                    key = text_of(part)
                elif part[0] == _VALUE:
                    value = self._any_value(bytes_of(part))
            if value is not None:
                found.append((key, value))
        return tuple(found)

    def _any_value(self, message: memoryview) -> str | None:
        """Text, a boolean or a number, as text. None: another kind of value."""
        value = None
        for field in self.fields(message):
            value = _scalar(field)
        return value


def _scalar(field: ProtoField) -> str | None:
    match field[0]:
        case 1:
            return text_of(field)
        case 2:
            return "true" if number_of(field) else "false"
        case 3:
            return str(signed_of(field))
        case 4:
            return repr(double_of(field))
        case _:
            return None
