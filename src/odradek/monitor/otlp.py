"""A snapshot in OTLP, the protocol of OpenTelemetry: bytes of `ExportMetricsServiceRequest` in protobuf.

Counters are cumulative sums since the start of the process, histograms are summaries. Names lack `_total`, and units
are in braces: so a collector that writes to Prometheus derives the same names as /metrics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from odradek.base.limits import metric_readings_per_slice_max, otlp_points_per_request_max
from odradek.base.steps import Finished, advance
from odradek.monitor.families import Families, by_family
from odradek.monitor.instruments import PERCENTILES, DistributionReading, MeterReading, TimerReading
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Number, Reading, Snapshot

_CUMULATIVE = 2
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_INT64_MAX = (1 << 63) - 1


def requests(
    snapshot: Snapshot, resource: Mapping[str, str], *, version: str, started_ns: int, now_ns: int
) -> Iterator[bytes | None]:
    """Each of bounded size, and None after each piece of work without one, as a moment to let other threads run.

    `resource` describes the process; the times are nanoseconds since 1970.
    """
    head = _field(1, _attributes(resource, 1))
    scope = _field(1, _field(1, b"odradek") + _field(2, version.encode()))
    times = _fixed64(2, started_ns) + _fixed64(3, now_ns)
    points: dict[Metric, list[bytes]] = {}
    count = 0
    grouping = by_family(snapshot)
    while not isinstance(step := advance(grouping), Finished):
        yield None
    for metric, readings in _pieces(step.result):
        points.setdefault(metric, []).extend(_field(1, _point(reading, times)) for reading in readings)
        count += len(readings)
        if count >= otlp_points_per_request_max:
            yield _request(head, scope, points)
            points, count = {}, 0
        else:
            yield None
    if points:
        yield _request(head, scope, points)


def _request(head: bytes, scope: bytes, points: Mapping[Metric, Iterable[bytes]]) -> bytes:
    metrics = b"".join(_field(2, _metric(metric, b"".join(each))) for metric, each in points.items())
    return _field(1, head + _field(2, scope + metrics))


def _pieces(families: Families) -> Iterator[tuple[Metric, list[Reading]]]:
    """The readings by metric, at most a slice at a time."""
    size = metric_readings_per_slice_max
    for metric, readings in families.items():
        for first in range(0, len(readings), size):
            happened = [each for each in readings[first : first + size] if not each.is_before_first_event]
            if happened:
                yield metric, happened


def _metric(metric: Metric, points: bytes) -> bytes:
    name = metric.name.removesuffix("_total")
    text = _field(1, name.encode()) + _field(2, metric.help.encode()) + _field(3, f"{{{metric.unit}}}".encode())
    if metric.kind in (Kind.COUNTER, Kind.METER):
        return text + _field(7, points + _varint_field(2, _CUMULATIVE) + _varint_field(3, 1))
    if metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
        return text + _field(11, points)
    return text + _field(5, points)


def _point(reading: Reading, times: bytes) -> bytes:
    metric, labels, value = reading
    attributes = {name: label for name, label in zip(metric.labels, labels, strict=True) if label}
    if isinstance(value, TimerReading):
        value = value.distribution
    if isinstance(value, DistributionReading):
        return _attributes(attributes, 7) + times + _distribution(value)
    if isinstance(value, MeterReading):
        value = value.count
    if isinstance(value, str):
        attributes["state"] = value
        value = 1
    return _attributes(attributes, 7) + times + _number(value)


def _number(value: Number) -> bytes:
    if isinstance(value, int) and abs(value) <= _INT64_MAX:
        return _tag(6, _FIXED64) + struct.pack("<q", value)
    return _double(4, float(value))


def _distribution(value: DistributionReading) -> bytes:
    quantiles = (
        _field(6, _double(1, quantile) + _double(2, found))
        for quantile, found in zip(PERCENTILES, value.percentiles, strict=True)
    )
    return _fixed64(4, value.count) + _double(5, value.sum) + b"".join(quantiles)


def _attributes(pairs: Mapping[str, str], number: int) -> bytes:
    return b"".join(
        _field(number, _field(1, name.encode()) + _field(2, _field(1, text.encode("utf-8", "replace"))))
        for name, text in pairs.items()
    )


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(content)) + content


def _varint_field(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + _varint(value)


def _fixed64(number: int, value: int) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<Q", value)


def _double(number: int, value: float) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<d", value)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
