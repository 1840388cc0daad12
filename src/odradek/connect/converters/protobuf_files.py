"""Protobuf's files: well-known imports, pools of descriptors, and the text of a file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from odradek.connect.conversion import CannotConvert

FieldProto = descriptor_pb2.FieldDescriptorProto
FileProto = descriptor_pb2.FileDescriptorProto
IMPORTS_MAX = 200
WELL_KNOWN = (
    "any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type", "wrappers"
)  # fmt: skip
TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
DECIMAL_FILE = "confluent/type/decimal.proto"
DATE_FILE = "google/type/date.proto"
TIME_FILE = "google/type/timeofday.proto"
# Messages that registries and their clients know without being told: each with its fields.
_OTHERS: dict[str, tuple[str, str, tuple[tuple[str, int], ...]]] = {
    DECIMAL_FILE: (
        "confluent.type",
        "Decimal",
        (("value", FieldProto.TYPE_BYTES), ("precision", FieldProto.TYPE_UINT32), ("scale", FieldProto.TYPE_INT32)),
    ),
    DATE_FILE: ("google.type", "Date", tuple((name, FieldProto.TYPE_INT32) for name in ("year", "month", "day"))),
    TIME_FILE: (
        "google.type",
        "TimeOfDay",
        tuple((name, FieldProto.TYPE_INT32) for name in ("hours", "minutes", "seconds", "nanos")),
    ),
    # Annotations, which are read as unknown options.
    "confluent/meta.proto": ("confluent", "Meta", ()),
}
_TEXTS = {
    FieldProto.TYPE_DOUBLE: "double",
    FieldProto.TYPE_FLOAT: "float",
    FieldProto.TYPE_INT64: "int64",
    FieldProto.TYPE_INT32: "int32",
    FieldProto.TYPE_BOOL: "bool",
    FieldProto.TYPE_STRING: "string",
    FieldProto.TYPE_BYTES: "bytes",
}


@cache
def known_file(name: str) -> Any:  # noqa: ANN401 (a file, or None)
    """A file that every registry knows."""
    if name == "google/protobuf/descriptor.proto":
        return _copy(descriptor_pb2.DESCRIPTOR)
    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if stem in WELL_KNOWN:
        return _copy(import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR)
    if name not in _OTHERS:
        return None
    package, message, fields = _OTHERS[name]
    made = FileProto(name=name, package=package, syntax="proto3")
    known = made.message_type.add(name=message)
    for number, (field, kind) in enumerate(fields, 1):
        known.field.add(name=field, number=number, type=kind, label=FieldProto.LABEL_OPTIONAL)
    return made


def _copy(descriptor: Any) -> Any:  # noqa: ANN401
    made = FileProto()
    descriptor.CopyToProto(made)
    return made


def pool_of(files: Iterable[Any]) -> descriptor_pool.DescriptorPool:
    """A pool with these files and all that they import. Raises CannotConvert."""
    given = {each.name: each for each in files}
    pool, done = descriptor_pool.DescriptorPool(), set[str]()

    def add(name: str, way: tuple[str, ...]) -> None:
        if name in done:
            return
        file = given.get(name) or known_file(name)
        if file is None:
            raise CannotConvert(f"the Protobuf schema imports {name}, which is not among its references")
        if name in way or len(done) > IMPORTS_MAX:
            raise CannotConvert(f"the Protobuf schema imports {name} in a circle, or more than {IMPORTS_MAX} files")
        for each in file.dependency:
            add(each, (*way, name))
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
        done.add(name)

    try:
        for name in given:
            add(name, ())
    except TypeError as wrong:
        raise CannotConvert(f"not a Protobuf schema: {wrong}") from wrong
    return pool


def text_of(file: Any) -> str:  # noqa: ANN401
    """The text of a file that `protobuf_schemas` made. Registries take the text of a schema."""
    lines = ['syntax = "proto3";']
    if file.package:
        lines.append(f"package {file.package};")
    lines += [f'import "{name}";' for name in file.dependency]
    for message in file.message_type:
        lines += _message(message, "")
    return "\n".join(lines) + "\n"


def _message(message: Any, indent: str) -> list[str]:  # noqa: ANN401
    lines = [f"{indent}message {message.name} {{"]
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    for nested in message.nested_type:
        if nested.name not in entries:
            lines += _message(nested, indent + "  ")
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        lines.append(f"{indent}  {_typed(field, entry)}{field.name} = {field.number};")
    return [*lines, f"{indent}}}"]


def _typed(field: Any, entry: Any) -> str:  # noqa: ANN401
    if entry is not None:
        key, value = entry.field
        return f"map<{_TEXTS[key.type]}, {_name(value)}> "
    label = "repeated " if field.label == FieldProto.LABEL_REPEATED else ""
    label = "optional " if field.proto3_optional else label
    return f"{label}{_name(field)} "


def _name(field: Any) -> str:  # noqa: ANN401
    return field.type_name if field.type == FieldProto.TYPE_MESSAGE else _TEXTS[field.type]
