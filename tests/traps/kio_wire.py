"""A client that encodes requests and decodes replies with kio, an independent codec."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import io
import struct
import types
import typing
from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from traps.wire import Wire


def knows(key: int, version: int) -> bool:
    return version in schema_name_map[api_key_map[key]]


def ask(wire: Wire, key: int, version: int, fields: dict[str, Any]) -> Any:
    """`fields` have Kafka's names in snake case. Fields that this version lacks are left out."""
    request = kio_class(key, version, EntityType.request)
    header = request.__header_schema__
    values = {"request_api_key": key, "request_api_version": version, "correlation_id": 4711, "client_id": "kio"}
    wire.send_frame(encode(build(header, values)) + encode(build(request, fields)))
    frame = wire.receive_frame()
    response = kio_class(key, version, EntityType.response)
    header, size = entity_reader(response.__header_schema__)(frame, 0)
    assert header.correlation_id == 4711
    answer, body_size = entity_reader(response)(frame, size)
    assert size + body_size == len(frame), "the reply is longer than its content"
    return answer


def ask_api_versions_by_hand(wire: Wire) -> None:
    """ApiVersions 0, which every client can read. Shows that the connection still works."""
    wire.send_frame(struct.pack(">hhih", 18, 0, 4712, -1))
    correlation_id, error, rows = struct.unpack_from(">ihi", reply := wire.receive_frame())
    assert (correlation_id, error, len(reply)) == (4712, 0, 10 + 6 * rows)


def errors_in(answer: Any) -> Iterator[int]:
    """Every error code in a reply, at any level."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, ErrorCode):
            yield value.value
        elif isinstance(value, tuple):
            for element in value:
                if dataclasses.is_dataclass(element):
                    yield from errors_in(element)


def kio_class(key: int, version: int, role: EntityType) -> Any:
    module, name = schema_name_map[api_key_map[key]][version][role].split(":")
    return getattr(importlib.import_module(module), name)


def encode(entity: Any) -> bytes:
    output = io.BytesIO()
    entity_writer(type(entity))(output, entity)
    return output.getvalue()


def build(cls: Any, fields: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(cls)
    given = {}
    for field in dataclasses.fields(cls):
        name = field.name if field.name in fields else f"{field.name}_ms"  # kio has no units in its names
        if name in fields:
            given[field.name] = _converted(hints[field.name], fields[name])
    return cls(**given)


def _converted(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
        return None if value is None else _converted(hint, value)
    if typing.get_origin(hint) is tuple:
        return tuple(_converted(typing.get_args(hint)[0], element) for element in value)
    if dataclasses.is_dataclass(hint):
        return build(hint, value)
    if issubclass(hint, dt.timedelta):
        return dt.timedelta(milliseconds=value)
    return value
