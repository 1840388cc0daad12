"""Protobuf, with a schema registry (Confluent's framing) or with one message for all records (plain bodies)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import DecodeError

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.protobuf_files import FileProto, pool_of, text_of
from odradek.connect.converters.protobuf_schemas import connect_of, file_of, identifier, is_map, oneof_field, real_oneof
from odradek.connect.converters.registry import Registry, RegistryOptions, Stored, framed, opened
from odradek.connect.options import option
from odradek.connect.records import DATE, DECIMAL, TIME, TIMESTAMP, Kind, Schema
from odradek.connect.values import EPOCH, WrongType, checked, decimal_bytes, decimal_of, scale_of

SERIALIZED = "?format=serialized"
INDEXES_MAX = 100
FIRST_MESSAGE = b"\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions(RegistryOptions):
    descriptor_file: str | None = option(
        "A file that `protoc --include_imports --descriptor_set_out` wrote, if there is no registry.", default=None
    )
    message: str | None = option("The full name of the message of all records in descriptor.file.", default=None)


Make = Callable[[], Any]


class ProtobufConverter:
    """Messages in Confluent's framing with `schema.registry.url`, or plain ones with `descriptor.file`."""

    Config: ClassVar[type] = ProtobufOptions

    def __init__(self, config: ProtobufOptions, *, is_key: bool) -> None:
        if config.schema is not None:
            raise ValueError('the Protobuf converter has no "schema": give "descriptor.file" and "message"')
        if bool(config.schema_registry_url) == (config.descriptor_file is not None):
            raise ValueError('give either "schema.registry.url" or "descriptor.file"')
        if (config.descriptor_file is None) != (config.message is None):
            raise ValueError('"descriptor.file" and "message" belong together')
        self._config, self._is_key = config, is_key
        self._registry = Registry(config)
        self._written: Callable[[Schema], tuple[str, Make]] = lru_cache(config.schemas_cache_size)(_written)
        self._read: dict[tuple[int, tuple[int, ...]], tuple[Schema, Make]] = {}
        self._given: tuple[Schema, Make] | None = None
        if config.descriptor_file is not None and config.message is not None:
            self._given = _from_file(config.descriptor_file, config.message)

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        if self._given is not None:
            known, make = self._given
            return _serialized(topic, known, make(), value)
        if schema is None:
            raise CannotConvert(f"a value for {topic!r} has no schema, which Protobuf needs: use a source with schemas")
        text, make = self._written(schema)
        body = _serialized(topic, schema, make(), value)
        subject = self._config.subject(topic, schema.name, is_key=self._is_key)
        return framed(self._registry.id_of(subject, "PROTOBUF", text), FIRST_MESSAGE + body)

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return None, None
        if self._given is not None:
            schema, make = self._given
            return schema, _parsed(topic, make(), data)
        schema_id, body = opened(topic, data)
        indexes, at = _indexes(topic, body)
        schema, make = self._reading(topic, schema_id, indexes)
        return schema, _parsed(topic, make(), body[at:])

    def _reading(self, topic: str, schema_id: int, indexes: tuple[int, ...]) -> tuple[Schema, Make]:
        known = self._read.get((schema_id, indexes))
        if known is None:
            stored = self._registry.stored(schema_id, SERIALIZED)
            if stored.kind != "PROTOBUF":
                raise CannotConvert(
                    f"a record of {topic!r} has schema {schema_id}, which is {stored.kind}, not PROTOBUF"
                )
            file = _file(stored, f"{schema_id}.proto")
            pool = pool_of([*_imported(stored), file])
            message = _message_at(file, indexes)
            known = _made(pool, ".".join(part for part in (file.package, message) if part))
            while len(self._read) >= self._config.schemas_cache_size:
                self._read.pop(next(iter(self._read)))
            self._read[schema_id, indexes] = known
        return known


def _file(stored: Stored, name: str) -> Any:  # noqa: ANN401 (a file)
    """Registries convert their text into a descriptor, when they are asked for `format=serialized`."""
    file = FileProto()
    try:
        file.ParseFromString(base64.b64decode(stored.text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as wrong:
        raise CannotConvert(
            f"the schema registry does not answer {SERIALIZED!r} with a descriptor of Protobuf: {wrong}"
        ) from wrong
    file.name = name
    return file


def _imported(stored: Stored) -> Iterator[Any]:
    for name, each in stored.references.items():
        yield _file(each, name)
        yield from _imported(each)


def _message_at(file: Any, indexes: tuple[int, ...]) -> str:  # noqa: ANN401
    """The name of a message by its place in the file, and in the messages around it."""
    inside, names = file.message_type, []
    for index in indexes:
        if index >= len(inside):
            raise CannotConvert(f"the schema has no message with the indexes {list(indexes)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def _made(pool: Any, name: str) -> tuple[Schema, Make]:  # noqa: ANN401
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        raise CannotConvert(f"the Protobuf schema has no message {name}") from None
    return connect_of(descriptor), message_factory.GetMessageClass(descriptor)


def _from_file(path: str, message: str) -> tuple[Schema, Make]:
    """Raises ValueError: the option is wrong, and no record."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes())
        return _made(pool_of(files.file), message)
    except (OSError, DecodeError, CannotConvert) as wrong:
        raise ValueError(f'"descriptor.file" is {path!r}, which cannot be used: {wrong}') from wrong


def _written(schema: Schema) -> tuple[str, Make]:
    file = file_of(schema)
    name = ".".join(part for part in (file.package, file.message_type[0].name) if part)
    try:
        return text_of(file), _made(pool_of([file]), name)[1]
    except TypeError as wrong:
        raise CannotConvert(f"the schema has no Protobuf schema: {wrong}") from wrong


# --- the indexes of a message in its file: zigzag numbers, of which a lone zero stands for the first message


def _indexes(topic: str, body: bytes) -> tuple[tuple[int, ...], int]:
    count, at = _varint(topic, body, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise CannotConvert(f"a record of {topic!r} has {count} indexes of messages")
    found = []
    for _ in range(count):
        index, at = _varint(topic, body, at)
        if index < 0:
            raise CannotConvert(f"a record of {topic!r} has the index {index} of a message")
        found.append(index)
    return tuple(found), at


def _varint(topic: str, body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(body) and shift < 35:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7
    raise CannotConvert(f"a record of {topic!r} ends before its Protobuf message begins")


# --- values


def _serialized(topic: str, schema: Schema, message: Any, value: object) -> bytes:  # noqa: ANN401
    try:
        _fill(message, schema, value, "the value")
        return bytes(message.SerializeToString())
    except (TypeError, ValueError, AttributeError, WrongType) as wrong:
        raise CannotConvert(f"a value for {topic!r} does not have its Protobuf schema: {wrong}") from wrong


def _fill(message: Any, schema: Schema, value: object, where: str) -> None:  # noqa: ANN401
    given = checked(schema, value, where)
    if not isinstance(given, Mapping):
        raise WrongType(f"{where} is not a struct")
    descriptor = message.DESCRIPTOR
    oneofs = {oneof_field(each): each for each in descriptor.oneofs}
    for field in schema.fields:
        part = given.get(field.name)
        part = field.schema.default if part is None else part
        name = identifier(field.name)
        if part is None:
            if not field.schema.optional:
                raise WrongType(f"{where}.{field.name} is null, but its schema says {field.schema.kind}")
        elif name in descriptor.fields_by_name:
            _set(message, descriptor.fields_by_name[name], field.schema, part, f"{where}.{field.name}")
        elif field.name in oneofs:
            _fill(message, Schema(kind=Kind.STRUCT, fields=field.schema.fields), part, where)
        else:
            raise WrongType(f"{where} has no field {field.name} in Protobuf")


def _set(message: Any, field: Any, schema: Schema, value: Any, where: str) -> None:  # noqa: ANN401
    name = field.name
    if is_map(field) and schema.items is not None:
        target, items = getattr(message, name), schema.items
        for key, item in checked(schema, value, where).items():  # type: ignore[attr-defined]
            if items.kind is Kind.STRUCT or items.name in _TO_MESSAGE:
                _set_message(target[key], items, item, f"{where}[{key!r}]")
            else:
                target[key] = checked(items, item, f"{where}[{key!r}]")
    elif schema.kind is Kind.ARRAY and schema.items is not None:
        target, items = getattr(message, name), schema.items
        for item in checked(schema, value, where):  # type: ignore[attr-defined]
            if items.kind is Kind.STRUCT or items.name in _TO_MESSAGE:
                _set_message(target.add(), items, item, f"{where}[]")
            else:
                target.append(checked(items, item, f"{where}[]"))
    elif schema.kind is Kind.STRUCT or schema.name in _TO_MESSAGE:
        target = getattr(message, name)
        target.SetInParent()
        _set_message(target, schema, value, where)
    elif field.enum_type is not None:
        setattr(message, name, field.enum_type.values_by_name[value].number)
    else:
        setattr(message, name, checked(schema, value, where))


def _set_message(target: Any, schema: Schema, value: Any, where: str) -> None:  # noqa: ANN401
    if schema.name in _TO_MESSAGE:
        for name, part in _TO_MESSAGE[schema.name](schema, value).items():
            setattr(target, name, part)
    else:
        _fill(target, schema, value, where)


def _decimal_parts(schema: Schema, value: Decimal) -> dict[str, object]:
    # A schema that was read from Protobuf has no scale: each value has its own.
    has_scale = schema.parameters.get("scale", "0") != "0"
    exponent = value.as_tuple().exponent
    scale = scale_of(schema) if has_scale or not isinstance(exponent, int) else max(-exponent, 0)
    precision = schema.parameters.get("connect.decimal.precision")
    given = {"precision": int(precision)} if precision else {}
    return {"value": decimal_bytes(value, scale), "scale": scale, **given}


def _moment_parts(_: Schema, value: dt.datetime) -> dict[str, object]:
    since = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - EPOCH
    return {"seconds": since // dt.timedelta(seconds=1), "nanos": since.microseconds * 1_000}


def _time_parts(_: Schema, value: dt.time) -> dict[str, object]:
    return {"hours": value.hour, "minutes": value.minute, "seconds": value.second, "nanos": value.microsecond * 1_000}


_TO_MESSAGE: dict[str | None, Callable[[Schema, Any], dict[str, object]]] = {
    DECIMAL: _decimal_parts,
    DATE: lambda _, value: {"year": value.year, "month": value.month, "day": value.day},
    TIME: _time_parts,
    TIMESTAMP: _moment_parts,
}
_FROM_MESSAGE: dict[str, Callable[[Any], object]] = {
    "confluent.type.Decimal": lambda each: decimal_of(each.value, each.scale),
    "google.type.Date": lambda each: dt.date(each.year, each.month, each.day),
    "google.type.TimeOfDay": lambda each: dt.time(each.hours, each.minutes, each.seconds, each.nanos // 1_000),
    "google.protobuf.Timestamp": lambda each: (
        EPOCH + dt.timedelta(seconds=each.seconds, microseconds=each.nanos // 1_000)
    ),
}


def _parsed(topic: str, message: Any, body: bytes) -> dict[str, object]:  # noqa: ANN401
    try:
        message.ParseFromString(body)
        missing = [] if message.IsInitialized() else message.FindInitializationErrors()
        value = _struct(message)
    except (DecodeError, ValueError, OverflowError) as wrong:
        raise CannotConvert(f"a record of {topic!r} is not Protobuf of its schema: {wrong}") from wrong
    if missing:
        raise CannotConvert(f"a record of {topic!r} is not Protobuf of its schema: it lacks {', '.join(missing)}")
    return value


def _struct(message: Any) -> dict[str, object]:  # noqa: ANN401
    found: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        oneof = real_oneof(field)
        if oneof is None:
            found[field.name] = _value(message, field)
        elif oneof_field(oneof) not in found:
            chosen = message.WhichOneof(oneof.name)
            parts = {each.name: _value(message, each) if each.name == chosen else None for each in oneof.fields}
            found[oneof_field(oneof)] = None if chosen is None else parts
    return found


def _value(message: Any, field: Any) -> object:  # noqa: ANN401
    value = getattr(message, field.name)
    if is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {key: _single(of, value[key]) for key in value}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(field, value)


def _single(field: Any, value: Any) -> object:  # noqa: ANN401
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.message_type is None:
        # Kafka Connect's numbers have a sign.
        return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value
    convert = _FROM_MESSAGE.get(field.message_type.full_name)
    return _struct(value) if convert is None else convert(value)
