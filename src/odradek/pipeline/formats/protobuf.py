"""Protobuf bodies, read and written with the protobuf package: plain messages, without the framing of a registry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NumericType, StructType

from odradek.pipeline.formats.protobuf_schemas import (
    ENUM,
    UNSIGNED_64,
    Described,
    Descriptor,
    FieldDescriptor,
    is_map,
    is_repeated,
    is_timestamp,
    is_wrapper,
    message_class,
    struct_of_message,
)
from odradek.pipeline.formats.python_reading import arrow_function, python_reading
from odradek.pipeline.formats.reading import Reading, all_nullable
from odradek.pipeline.formats.schemas import BadSchema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Read = Callable[[Any], Any]
Write = Callable[[Any, Any], None]
"""Takes a message and a value that is not null."""


class NotProtobuf(Exception):
    """Bytes that are not a message of the expected type."""


def protobuf_reading(message: Described) -> Reading:
    return python_reading(struct_of_message(message.descriptor), functools.partial(decode, message=message))


def decode(value: bytes, message: Described) -> dict[str, Any]:
    from google.protobuf.message import DecodeError

    found = message_class(message)()
    try:
        found.ParseFromString(value)
    except DecodeError as problem:
        raise NotProtobuf(f"not a {message.name}: {problem}") from problem
    if not found.IsInitialized():
        missing = ", ".join(found.FindInitializationErrors())
        raise NotProtobuf(f"not a {message.name}: required and missing: {missing}")
    return _reader(message)(found)  # type: ignore[no-any-return]


def encode(row: Mapping[str, Any] | None, message: Described) -> bytes | None:
    if row is None:
        return None
    made = message_class(message)()
    _writer(message)(made, row)
    return made.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


def protobuf_value(message: Described, struct: StructType) -> Column:
    """Rows as messages. Columns set the fields with the same names; fields without a column are not set."""
    fields = struct_of_message(message.descriptor)
    columns = [_fitting(name, struct, fields, message.name) for name in struct.names]
    write = functools.partial(_encode_all, message=message)
    return arrow_function(write, BinaryType())(F.struct(*columns))


def _fitting(name: str, struct: StructType, wanted: StructType, message: str) -> Column:
    """A column with the type of its field."""
    if name not in wanted.names:
        raise BadSchema(
            f"the column {name!r} is not a field of {message}",
            why=f"its fields are {', '.join(wanted.names)}",
            instead="select() the fields, or drop() the column, before the sink",
        )
    kind, own = all_nullable(wanted[name].dataType), all_nullable(struct[name].dataType)
    column = F.col(f"`{name}`")
    if kind == own:
        return column
    if isinstance(kind, NumericType) and isinstance(own, NumericType):
        return column.cast(kind).alias(name)
    raise BadSchema(
        f"the column {name!r} is {own.simpleString()}, but the field of {message} is {kind.simpleString()}",
        instead="a step before the sink that converts the column",
    )


def _encode_all(rows: pa.Array[Any], message: Described) -> pa.Array[Any]:
    import pyarrow as pa

    return pa.array([encode(row, message) for row in rows.to_pylist()], pa.binary())


# --- from messages


@functools.lru_cache(maxsize=100)
def _reader(message: Described) -> Read:
    return _message_reader(message.descriptor)


def _message_reader(descriptor: Descriptor) -> Read:
    readers = [(field.name, _field_reader(field)) for field in descriptor.fields]
    return lambda message: {name: read(message) for name, read in readers}


def _field_reader(field: FieldDescriptor) -> Read:
    name = field.name
    if is_map(field):
        item = _value_reader(field.message_type.fields_by_name["value"])
        return lambda message: {key: item(value) for key, value in getattr(message, name).items()}
    single = _value_reader(field)
    if is_repeated(field):
        return lambda message: [single(one) for one in getattr(message, name)]
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _value_reader(field: FieldDescriptor) -> Read:
    if is_timestamp(field):
        return lambda value: EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if is_wrapper(field):
        inner = _value_reader(field.message_type.fields[0])
        return lambda value: inner(value.value)
    if field.message_type is not None:
        return _message_reader(field.message_type)
    if field.type == ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))  # only a newer schema has a name for this number
    return Decimal if field.type in UNSIGNED_64 else _same


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


# --- to messages


@functools.lru_cache(maxsize=100)
def _writer(message: Described) -> Write:
    return _message_writer(message.descriptor)


def _message_writer(descriptor: Descriptor) -> Write:
    writers = {field.name: _field_writer(field) for field in descriptor.fields}

    def write(message: Any, row: Mapping[str, Any]) -> None:  # noqa: ANN401
        for name, value in row.items():
            if value is not None:
                writers[name](message, value)

    return write


def _field_writer(field: FieldDescriptor) -> Write:
    name = field.name
    if is_map(field):
        return _map_writer(field)
    if field.message_type is not None:
        fill = _filler(field)
        if is_repeated(field):
            return lambda message, values: _each(values, lambda one: fill(getattr(message, name).add(), one))
        return lambda message, value: fill(_present(getattr(message, name)), value)
    convert = _converter(field)
    if is_repeated(field):
        return lambda message, values: getattr(message, name).extend(map(convert, values))
    return lambda message, value: setattr(message, name, convert(value))


def _map_writer(field: FieldDescriptor) -> Write:
    """A map is a list of pairs from Arrow, and a dict in tests."""
    name, item = field.name, field.message_type.fields_by_name["value"]
    if item.message_type is not None:
        fill = _filler(item)

        def fill_all(message: Any, pairs: Any) -> None:  # noqa: ANN401
            for key, value in dict(pairs).items():
                fill(getattr(message, name)[key], value)

        return fill_all
    convert = _converter(item)
    return lambda message, pairs: getattr(message, name).update({k: convert(v) for k, v in dict(pairs).items()})


def _filler(field: FieldDescriptor) -> Write:
    """The function that fills a nested message."""
    if is_timestamp(field):
        return _fill_timestamp
    if is_wrapper(field):
        convert = _converter(field.message_type.fields[0])
        return lambda message, value: setattr(message, "value", convert(value))
    return _message_writer(field.message_type)


def _fill_timestamp(message: Any, value: datetime) -> None:  # noqa: ANN401
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
    message.seconds = since // timedelta(seconds=1)
    message.nanos = since % timedelta(seconds=1) // timedelta(microseconds=1) * 1000


def _converter(field: FieldDescriptor) -> Read:
    if field.type == ENUM:
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}
        return functools.partial(_enum_number, field=field.name, numbers=numbers)
    return int if field.type in UNSIGNED_64 else _same


def _enum_number(value: str, field: str, numbers: Mapping[str, int]) -> int:
    if value in numbers:
        return numbers[value]
    if value.lstrip("-").isdigit():  # the reader returns a number without a name as text
        return int(value)
    raise ValueError(f"field {field}: {value!r} is none of {', '.join(numbers)}")


def _present(message: Any) -> Any:  # noqa: ANN401
    message.SetInParent()
    return message


def _each(values: Any, call: Callable[[Any], None]) -> None:  # noqa: ANN401
    for value in values:
        call(value)
