"""Descriptions of Protobuf messages, and the Spark columns of a message. No JVM is needed.

A class that was generated at run time cannot be sent to Spark's workers. So a message is kept as its full name and its
serialised descriptor files.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipeline.formats.schemas import BadSchema

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
# By the numbers of FieldDescriptorProto.Type. An unsigned type becomes the next larger type that holds all its values.
SCALARS: Mapping[int, DataType] = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),
    4: DecimalType(20, 0),
    5: IntegerType(),
    6: DecimalType(20, 0),
    7: LongType(),
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),
    14: StringType(),  # the name of an enum's value
    15: IntegerType(),
    16: LongType(),
    17: IntegerType(),
    18: LongType(),
}
UNSIGNED_64 = (4, 6)
ENUM = 14
REPEATED = 3

Descriptor = Any
FieldDescriptor = Any


@dataclass(frozen=True, slots=True)
class Described:
    """A message, as its name and its descriptor files (a serialised FileDescriptorSet)."""

    files: bytes
    name: str

    @property
    def descriptor(self) -> Descriptor:
        return message_class(self).DESCRIPTOR

    def __repr__(self) -> str:
        return f"Described({self.name})"


def described(message: Any, name: str | None) -> Described:  # noqa: ANN401 a class, a descriptor, a path, bytes
    descriptor = getattr(message, "DESCRIPTOR", message)
    if hasattr(descriptor, "full_name") and hasattr(descriptor, "fields"):
        return Described(_with_dependencies(descriptor.file), descriptor.full_name)
    if not isinstance(message, str | Path | bytes):
        raise BadSchema(
            f"{message!r} does not describe a Protobuf message",
            instead='Protobuf(Order), with the class that protoc generated, or Protobuf("orders.desc", "shop.Order")',
        )
    return _in_files(message, name)


def _in_files(message: str | Path | bytes, name: str | None) -> Described:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(message if isinstance(message, bytes) else Path(message).read_bytes())
    except (OSError, DecodeError) as problem:
        raise BadSchema(
            f"{message!r} is not a Protobuf file descriptor set: {problem}",
            instead="the file that protoc --include_imports --descriptor_set_out=orders.desc orders.proto writes",
        ) from problem
    known = [found for file in files.file for found in _names(file.message_type, file.package)]
    if name is None or name not in known:
        close = get_close_matches(name or "", known, n=1) or known[-1:]
        raise BadSchema(
            f"there is no message {name!r} in the descriptors" if name else "the name of the message is missing",
            why=f"there are {', '.join(known) or 'none'}",
            instead=f'Protobuf(file, "{close[0]}")' if close else "",
        )
    made = Described(files.SerializeToString(deterministic=True), name)
    try:
        message_class(made)
    except TypeError as problem:  # an imported file is missing
        raise BadSchema(f"{name} cannot be built: {problem}", instead="protoc with --include_imports") from problem
    return made


def _names(messages: Any, above: str) -> Iterator[str]:  # noqa: ANN401 descriptors of messages
    for message in messages:
        name = f"{above}.{message.name}" if above else message.name
        yield name
        yield from _names(message.nested_type, name)


def _with_dependencies(file: Any) -> bytes:  # noqa: ANN401 a FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    files: dict[str, Any] = {}

    def add(one: Any) -> None:  # noqa: ANN401
        if one.name not in files:
            for dependency in one.dependencies:
                add(dependency)
            files[one.name] = FileDescriptorProto.FromString(one.serialized_pb)

    add(file)
    return FileDescriptorSet(file=files.values()).SerializeToString(deterministic=True)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=100)
def message_class(message: Described) -> Any:  # noqa: ANN401 a class of messages
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(message.files).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message.name))


def struct_of_message(descriptor: Descriptor, above: tuple[str, ...] = ()) -> StructType:
    if descriptor.full_name in above:
        raise BadSchema(f"{descriptor.full_name} contains itself, but Spark has no recursive types")
    within = (*above, descriptor.full_name)
    fields = [StructField(f.name, _field_type(f, within), _may_be_null(f)) for f in descriptor.fields]
    if not fields:
        raise BadSchema(f"{descriptor.full_name} has no fields, but a row needs at least one column")
    return StructType(fields)


def _field_type(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if is_map(field):
        key, value = field.message_type.fields
        return MapType(_single(key, above), _single(value, above), valueContainsNull=False)
    single = _single(field, above)
    return ArrayType(single, containsNull=False) if is_repeated(field) else single


def _single(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return SCALARS[field.type]
    if is_timestamp(field):
        return TimestampType()
    if is_wrapper(field):
        return SCALARS[field.message_type.fields[0].type]
    return struct_of_message(field.message_type, above)


def _may_be_null(field: FieldDescriptor) -> bool:
    return bool(field.has_presence) and not is_repeated(field)


def is_repeated(field: FieldDescriptor) -> bool:
    """Also true for maps. (The property with this information has different names in different protobuf versions.)"""
    return _label(field) == REPEATED


def _label(field: FieldDescriptor) -> int:
    from google.protobuf.descriptor_pb2 import DescriptorProto

    whole = DescriptorProto()
    field.containing_type.CopyToProto(whole)
    return int(whole.field[field.index].label)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_timestamp(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == TIMESTAMP


def is_wrapper(field: FieldDescriptor) -> bool:
    """Whether the field is a wrapper message: one value that may be missing."""
    return field.message_type is not None and field.message_type.full_name in WRAPPERS
