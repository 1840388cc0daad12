"""From the bytes of a push to samples for Prometheus. Slow: it runs off the event loop.

Names follow OpenTelemetry's rules for Prometheus: `org.apache.kafka.producer.connection.creation.total` becomes
`org_apache_kafka_producer_connection_creation_total`. Only Kafka's names are accepted, since a client must not be able
to invent a series that looks like one of the broker's.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.protobuf import MalformedProtobuf
from odradek.protocol.compression import Codec, decompress
from odradek.protocol.malformed import DecompressedTooLarge, MalformedRecords
from odradek.telemetry.otlp import Attributes, Kind, Point, TooManyPoints, points
from odradek.telemetry.subscriptions import Wanted

PREFIX = "org.apache.kafka."
# Labels that say which client it is; an attribute cannot replace them.
CLIENT_LABELS = ("client_instance_id", "client_id", "client_software_name", "client_software_version")
_COUNTER_SUFFIX = "_total"
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


class Sample(NamedTuple):
    name: str
    kind: Kind
    is_delta: bool
    # Without those of the client; sorted by name.
    labels: Attributes
    value: float


class Pushed(NamedTuple):
    samples: list[Sample]
    # Points that were left out: not subscribed, or with a name or value that is not accepted.
    refused: int


def samples(codec: int, payload: bytes, wanted: Wanted) -> Pushed:
    """Raises KafkaError with TELEMETRY_TOO_LARGE or INVALID_RECORD."""
    try:
        data = memoryview(payload) if codec == Codec.NONE else _decompressed(codec, payload)
        found = points(data)
    except (DecompressedTooLarge, TooManyPoints) as large:
        raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, str(large)) from large
    except (MalformedRecords, MalformedProtobuf) as broken:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(broken)) from broken
    accepted = [sample for point in found if wanted.covers(point.name) and (sample := _sample(point)) is not None]
    return Pushed(accepted, len(found) - len(accepted))


def _decompressed(codec: int, payload: bytes) -> memoryview:
    return decompress(codec, payload, limits.telemetry_decompressed_bytes_max)


def _sample(point: Point) -> Sample | None:
    if not point.name.startswith(PREFIX) or len(point.name) > limits.telemetry_name_chars_max:
        return None
    name = _NOT_IN_NAMES.sub("_", point.name)
    if point.kind is Kind.COUNTER:
        if not point.value >= 0 or math.isinf(point.value):
            return None
        if not name.endswith(_COUNTER_SUFFIX):
            name += _COUNTER_SUFFIX
    labels = _labels(point.attributes)
    return None if labels is None else Sample(name, point.kind, point.is_delta, labels, point.value)


def _labels(attributes: Attributes) -> Attributes | None:
    """None: a name or value is too long."""
    found: dict[str, str] = {}
    for key, value in attributes:
        if not key or max(len(key), len(value)) > limits.telemetry_text_chars_max:
            return None
        name = _label_name(key)
        if name not in CLIENT_LABELS and value:
            found[name] = value
    return tuple(sorted(found.items()))


def _label_name(key: str) -> str:
    name = _NOT_IN_NAMES.sub("_", key)
    # Names with two underscores in front are Prometheus' own.
    return f"key_{name.lstrip('_')}" if name[0].isdigit() or name.startswith("__") else name
