"""Dead letters: a failed record as it was, with Kafka Connect's headers that say where and why it failed."""

from __future__ import annotations

import json

from odradek.connect.conversion import Encoded
from odradek.connect.records import TopicPlace
from odradek.connect.tasks.tolerance import Failure

HEADER = "__connect.errors."


def dead_letter(failure: Failure, topic: str, connector: str, task: int, *, context: bool) -> Encoded:
    """For a sink, the bytes that were read. A source has no bytes yet: its value is written as JSON."""
    raw, record = failure.raw, failure.record
    if raw is not None:
        key, value, headers, timestamp_ms = raw.key, raw.value, list(raw.headers), raw.timestamp_ms
    else:
        key = _json(record.key) if record is not None else None
        value = _json(record.value) if record is not None else None
        headers, timestamp_ms = [], record.timestamp_ms if record is not None else None
    told = _context(failure, connector, task) if context else {}
    headers += [(HEADER + name, text.encode()) for name, text in told.items()]
    return Encoded(topic, key, value, headers, timestamp_ms, None)


def _context(failure: Failure, connector: str, task: int) -> dict[str, str]:
    told = {
        "connector.name": connector,
        "task.id": str(task),
        "stage": str(failure.stage),
        "class.name": _name(type(failure.error)),
        "exception.class.name": _name(type(failure.error)),
        "exception.message": str(failure.error),
        "exception.stacktrace": failure.stacktrace,
    }
    raw, record = failure.raw, failure.record
    if raw is not None:
        return _at(TopicPlace(raw.topic, raw.partition, raw.offset)) | told
    return _at(record.place) | told if record is not None and isinstance(record.place, TopicPlace) else told


def _at(place: TopicPlace) -> dict[str, str]:
    return {"topic": place.topic, "partition": str(place.partition), "offset": str(place.offset)}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _json(value: object) -> bytes | None:
    return None if value is None else json.dumps(value, default=str).encode()
