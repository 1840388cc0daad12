"""Schemas as messages of Protobuf and back, by the rules of Confluent's converter."""

from __future__ import annotations

import re
from typing import Any

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.protobuf_files import (
    DATE_FILE,
    DECIMAL_FILE,
    TIME_FILE,
    TIMESTAMP_FILE,
    FieldProto,
    FileProto,
)
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATE,
    DATES,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMES,
    TIMESTAMP,
    TIMESTAMPS,
    Field,
    Kind,
    Schema,
    array,
    decimal,
    mapping,
)

DEPTH_MAX = 100
DEFAULT_NAME = "ConnectDefault1"
LOGICAL_MESSAGES = {
    DECIMAL: (".confluent.type.Decimal", DECIMAL_FILE),
    DATE: (".google.type.Date", DATE_FILE),
    TIME: (".google.type.TimeOfDay", TIME_FILE),
    TIMESTAMP: (".google.protobuf.Timestamp", TIMESTAMP_FILE),
}
_KINDS = {
    Kind.INT8: FieldProto.TYPE_INT32,
    Kind.INT16: FieldProto.TYPE_INT32,
    Kind.INT32: FieldProto.TYPE_INT32,
    Kind.INT64: FieldProto.TYPE_INT64,
    Kind.FLOAT32: FieldProto.TYPE_FLOAT,
    Kind.FLOAT64: FieldProto.TYPE_DOUBLE,
    Kind.BOOLEAN: FieldProto.TYPE_BOOL,
    Kind.STRING: FieldProto.TYPE_STRING,
    Kind.BYTES: FieldProto.TYPE_BYTES,
}
_KEYS = frozenset({Kind.STRING, Kind.BOOLEAN, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})
_SCHEMAS = {
    FieldProto.TYPE_DOUBLE: FLOAT64,
    FieldProto.TYPE_FLOAT: FLOAT32,
    FieldProto.TYPE_INT64: INT64,
    FieldProto.TYPE_UINT64: INT64,
    FieldProto.TYPE_INT32: INT32,
    FieldProto.TYPE_FIXED64: INT64,
    FieldProto.TYPE_FIXED32: INT64,
    FieldProto.TYPE_BOOL: BOOLEAN,
    FieldProto.TYPE_STRING: STRING,
    FieldProto.TYPE_BYTES: BYTES,
    FieldProto.TYPE_UINT32: INT64,
    FieldProto.TYPE_SFIXED32: INT32,
    FieldProto.TYPE_SFIXED64: INT64,
    FieldProto.TYPE_SINT32: INT32,
    FieldProto.TYPE_SINT64: INT64,
}


def identifier(name: str) -> str:
    """A name that Protobuf allows: other characters become underscores."""
    scrubbed = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return scrubbed if scrubbed[0].isalpha() or scrubbed[0] == "_" else f"_{scrubbed}"


def file_of(schema: Schema) -> Any:  # noqa: ANN401 (a file)
    """A file whose first message stands for the schema, which must be a struct."""
    if schema.kind is not Kind.STRUCT:
        raise CannotConvert(f"Protobuf has messages only, but the schema is {schema.kind}: use a struct, or HoistField")
    *package, name = [identifier(part) for part in (schema.name or DEFAULT_NAME).split(".")]
    file = FileProto(name=f"{name}.proto", package=".".join(package), syntax="proto3")
    full = ".".join(["", *package, name])
    _fill(file.message_type.add(name=name), schema, full, file, 0)
    return file


def _fill(message: Any, schema: Schema, full: str, file: Any, depth: int) -> None:  # noqa: ANN401
    if depth > DEPTH_MAX:
        raise CannotConvert(f"the schema is nested more than {DEPTH_MAX} levels deep")
    names: set[str] = set()
    for number, field in enumerate(schema.fields, 1):
        name = identifier(field.name)
        if name in names:
            raise CannotConvert(f"two fields of {full} have the name {name} in Protobuf")
        names.add(name)
        made = message.field.add(name=name, number=number, label=FieldProto.LABEL_OPTIONAL)
        _type(made, field.schema, message, full, file, depth)
        if field.schema.optional and made.label != FieldProto.LABEL_REPEATED and made.type != FieldProto.TYPE_MESSAGE:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")


def _type(made: Any, schema: Schema, parent: Any, full: str, file: Any, depth: int) -> None:  # noqa: ANN401
    if schema.name in LOGICAL_MESSAGES:
        made.type, (made.type_name, needed) = FieldProto.TYPE_MESSAGE, LOGICAL_MESSAGES[schema.name]
        if needed not in file.dependency:
            file.dependency.append(needed)
    elif schema.kind is Kind.STRUCT:
        made.type = FieldProto.TYPE_MESSAGE
        made.type_name = _nested(schema, made.name, parent, full, file, depth)
    elif schema.kind is Kind.ARRAY and schema.items is not None:
        if schema.items.kind in (Kind.ARRAY, Kind.MAP):
            raise CannotConvert(f"{full}.{made.name} is an array of {schema.items.kind}s, which Protobuf does not have")
        _type(made, schema.items, parent, full, file, depth)
        made.label = FieldProto.LABEL_REPEATED
    elif schema.kind is Kind.MAP and schema.keys is not None and schema.items is not None:
        _map(made, schema.keys, schema.items, parent, full, file, depth)
    else:
        made.type = _KINDS[schema.kind]


def _nested(schema: Schema, field: str, parent: Any, full: str, file: Any, depth: int) -> str:  # noqa: ANN401
    wanted = name = identifier((schema.name or field.capitalize()).rpartition(".")[2])
    taken = {each.name for each in parent.nested_type} | {each.name for each in parent.field} | {parent.name}
    number = 1
    while name in taken:
        number += 1
        name = f"{wanted}{number}"
    _fill(parent.nested_type.add(name=name), schema, f"{full}.{name}", file, depth + 1)
    return f"{full}.{name}"


def _map(made: Any, keys: Schema, items: Schema, parent: Any, full: str, file: Any, depth: int) -> None:  # noqa: ANN401
    if keys.kind not in _KEYS or items.kind in (Kind.ARRAY, Kind.MAP):
        raise CannotConvert(f"{full}.{made.name} maps {keys.kind} to {items.kind}, which Protobuf does not have")
    # protoc names the message of a map in this way, and readers rely on it.
    name = "".join(part.capitalize() for part in made.name.split("_")) + "Entry"
    entry = parent.nested_type.add(name=name)
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_KINDS[keys.kind], label=FieldProto.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=FieldProto.LABEL_OPTIONAL)
    # A struct is not nested into the entry: the text of a file could not say this.
    _type(value, items, parent, full, file, depth)
    made.type, made.type_name, made.label = FieldProto.TYPE_MESSAGE, f"{full}.{name}", FieldProto.LABEL_REPEATED


def connect_of(message: Any, way: tuple[str, ...] = ()) -> Schema:  # noqa: ANN401 (a descriptor)
    """The schema of a message. A oneof is a struct of which one field is set, as in Confluent's converter."""
    if message.full_name in way:
        raise CannotConvert(f"the message {message.full_name} contains itself, which Kafka Connect has no type for")
    way = (*way, message.full_name)
    fields, seen = [], set()
    for field in message.fields:
        oneof = real_oneof(field)
        if oneof is None:
            fields.append(Field(field.name, _field_schema(field, way)))
        elif oneof.name not in seen:
            seen.add(oneof.name)
            parts = tuple(Field(each.name, _field_schema(each, way).or_null()) for each in oneof.fields)
            fields.append(
                Field(oneof_field(oneof), Schema(kind=Kind.STRUCT, name=oneof.name, optional=True, fields=parts))
            )
    return Schema(kind=Kind.STRUCT, name=message.full_name, fields=tuple(fields))


def real_oneof(field: Any) -> Any:  # noqa: ANN401
    """None for the hidden oneof of a field with the keyword `optional`."""
    oneof = field.containing_oneof
    # protoc's name for it; more than one X if the name is taken
    is_hidden = oneof is not None and len(oneof.fields) == 1 and oneof.name.lstrip("X_") == field.name.lstrip("X_")
    return None if is_hidden else oneof


def oneof_field(oneof: Any) -> str:  # noqa: ANN401
    return f"{oneof.name}_{oneof.index}"


def is_map(field: Any) -> bool:  # noqa: ANN401
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _field_schema(field: Any, way: tuple[str, ...]) -> Schema:  # noqa: ANN401
    if is_map(field):
        entry = field.message_type.fields_by_name
        return mapping(_one(entry["key"], way), _one(entry["value"], way)).or_null()
    if field.is_repeated:
        return array(_one(field, way)).or_null()
    found = _one(field, way)
    is_nullable = field.has_presence and not field.is_required
    return found.or_null() if is_nullable else found


def _one(field: Any, way: tuple[str, ...]) -> Schema:  # noqa: ANN401
    if field.enum_type is not None:
        return Schema(kind=Kind.STRING, name="io.confluent.connect.protobuf.Enum", parameters=_members(field.enum_type))
    if field.message_type is None:
        return _SCHEMAS[field.type]
    match field.message_type.full_name:
        case "confluent.type.Decimal":
            return decimal(0)
        case "google.type.Date":
            return DATES
        case "google.type.TimeOfDay":
            return TIMES
        case "google.protobuf.Timestamp":
            return TIMESTAMPS
    return connect_of(field.message_type, way)


def _members(kind: Any) -> dict[str, str]:  # noqa: ANN401
    name = "io.confluent.connect.protobuf.Enum"
    return {name: kind.name} | {f"{name}.{value.name}": str(value.number) for value in kind.values}
