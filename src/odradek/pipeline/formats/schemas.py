"""Schemas: converts a dataclass, a pydantic model, a DDL string or a StructType to Spark's StructType.

A field that is not Optional and has no default is required: `nullable=False`. The field's metadata has what a
StructType cannot express: `ALLOWED`, the values of an Enum or Literal, and `DEFAULT`, the value for a missing field.
Only a DDL string needs a running Spark; all other schemas are converted without a JVM.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.formats.ddl import columns_of_ddl, mistake_in

Schema: TypeAlias = type | str | StructType

ALLOWED = "odradek.allowed"
DEFAULT = "odradek.default"
RESERVED = frozenset(
    {"_key", "_time", "_deleted", "_error", "_record", "_topic", "_headers", "_read", "_moment", "_tick"}
)

PLAIN: Mapping[Any, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    bytes: BinaryType(),
    decimal.Decimal: DecimalType(38, 18),
    dt.datetime: TimestampType(),
    dt.date: DateType(),
    uuid.UUID: StringType(),
}
LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Set)
MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class BadSchema(PipelineError):
    """A declared schema has no equivalent in Spark."""


def struct_of(declared: Schema) -> StructType:
    """The columns of a schema. A DDL string is parsed by Spark, so it needs a session; the others do not."""
    if isinstance(declared, StructType):
        struct = declared
    elif isinstance(declared, str):
        struct = _parsed_ddl(declared)
    elif dataclasses.is_dataclass(declared) or is_pydantic(declared):
        struct = _record(declared, declared.__name__, ())
    else:
        raise BadSchema(
            f"{declared!r} is not a schema",
            instead="a dataclass, a pydantic model, a DDL string such as 'id int, name string', or a StructType",
        )
    _check_names(struct.names)
    return struct


def check_schema(declared: Schema) -> None:
    """Refuses a wrong schema at the line where the user declares it, as far as possible without a JVM."""
    if not isinstance(declared, str):
        struct_of(declared)
    elif not is_avro_text(declared):
        if mistake := mistake_in(declared):
            raise BadSchema(mistake[0], why=f"the schema is {declared!r}", instead=mistake[1])
        _check_names([name for name, _ in columns_of_ddl(declared)])


def is_avro_text(schema: str) -> bool:
    """Whether the text is an Avro schema in JSON, or the path of one, and not DDL."""
    return schema.lstrip().startswith("{") or schema.endswith(".avsc")


def _check_names(columns: Sequence[str]) -> None:
    if taken := sorted(RESERVED & set(columns)):
        raise BadSchema(f"the field name {taken[0]!r} is reserved for streams: rename the field")


def is_pydantic(declared: object) -> bool:
    return (
        isinstance(declared, type)
        and hasattr(declared, "__pydantic_core_schema__")
        and hasattr(declared, "model_fields")
    )


def _parsed_ddl(ddl: str) -> StructType:
    try:
        struct = DataType.fromDDL(ddl)
    except Exception as problem:
        raise BadSchema(f"Spark cannot read the schema {ddl!r}: {' '.join(str(problem).split())[:200]}") from problem
    if not isinstance(struct, StructType):
        raise BadSchema(f"the schema {ddl!r} is one type, not a list of columns: write 'name {ddl}'")
    return struct


def _record(cls: type, path: str, above: tuple[type, ...]) -> StructType:
    if cls in above:
        raise BadSchema(f"{path}: {cls.__name__} contains itself, but Spark has no recursive types")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as unknown:
        raise BadSchema(
            f"{path}: {unknown}; a name used in an annotation must be visible in the module of {cls.__name__}"
        ) from unknown
    fields = [
        _field(name, hints[name], default, f"{path}.{name}", (*above, cls)) for name, default in _declared_fields(cls)
    ]
    if not fields:
        raise BadSchema(f"{path}: {cls.__name__} has no fields")
    return StructType(fields)


class _Required(enum.Enum):
    REQUIRED = enum.auto()


REQUIRED = _Required.REQUIRED


def _declared_fields(cls: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401 a dataclass or a model
    if is_pydantic(cls):
        for name, field in cls.model_fields.items():
            yield name, REQUIRED if field.is_required() else field.get_default(call_default_factory=True)
        return
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            yield field.name, field.default
        elif field.default_factory is not dataclasses.MISSING:
            yield field.name, field.default_factory()
        else:
            yield field.name, REQUIRED


def _field(name: str, hint: object, default: object, path: str, above: tuple[type, ...]) -> StructField:
    data_type, nullable, allowed = _type(hint, path, above)
    metadata: dict[str, Any] = {}
    if allowed:
        metadata[ALLOWED] = list(allowed)
    if default is not REQUIRED and default is not None:
        metadata[DEFAULT] = _scalar_default(default, path)
    return StructField(name, data_type, nullable or default is not REQUIRED, metadata)


def _scalar_default(default: object, path: str) -> object:
    if isinstance(default, enum.Enum):
        default = default.value
    if isinstance(default, str | int | float | bool):
        return default
    if default in ([], {}, ()):
        return default
    raise BadSchema(
        f"{path}: the default {default!r} cannot be written into a schema",
        instead="text, a number, a boolean, an empty list or dict, or Optional with None",
    )


def _type(hint: object, path: str, above: tuple[type, ...]) -> tuple[DataType, bool, tuple[Any, ...]]:
    """The Spark type of an annotation, whether it may be null, and the values it is limited to."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        chosen = [extra for extra in arguments[1:] if isinstance(extra, DataType)]
        inner, nullable, allowed = _type(arguments[0], path, above)
        return (chosen[0] if chosen else inner), nullable, allowed
    if isinstance(hint, typing.NewType):
        return _type(hint.__supertype__, path, above)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, path, above)
    if origin is Literal:
        return _one_of(arguments, path)
    if origin in LISTS or hint in LISTS:
        return _list(arguments, path, above), False, ()
    if origin in MAPS or hint in MAPS:
        return _map(arguments, path, above), False, ()
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _one_of(tuple(member.value for member in hint), path)
    if dataclasses.is_dataclass(hint) or is_pydantic(hint):
        return _record(typing.cast("type", hint), path, above), False, ()
    if hint in PLAIN:
        return PLAIN[hint], False, ()
    name = getattr(hint, "__name__", str(hint))
    raise BadSchema(
        f"{path}: {name} has no Spark type",
        instead="str, int, float, bool, bytes, Decimal, datetime, date, UUID, an Enum, Literal, list[...], "
        "dict[str, ...], a dataclass, or Annotated[..., a pyspark DataType]",
    )


def _union(members: tuple[Any, ...], path: str, above: tuple[type, ...]) -> tuple[DataType, bool, tuple[Any, ...]]:
    some = [member for member in members if member is not type(None)]
    if len(some) != 1:
        names = " | ".join(getattr(member, "__name__", str(member)) for member in some)
        raise BadSchema(f"{path}: a column has one type, not {names}; choose one, or use str and convert it yourself")
    data_type, _, allowed = _type(some[0], path, above)
    return data_type, True, allowed


def _one_of(values: tuple[Any, ...], path: str) -> tuple[DataType, bool, tuple[Any, ...]]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) != 1 or not kinds <= {str, int, bool}:
        raise BadSchema(f"{path}: the values {list(values)} must be all text or all whole numbers")
    return PLAIN[kinds.pop()], None in values, tuple(value for value in values if value is not None)


def _list(arguments: tuple[Any, ...], path: str, above: tuple[type, ...]) -> ArrayType:
    if not arguments or len([a for a in arguments if a is not Ellipsis]) != 1:
        raise BadSchema(f"{path}: say what the list holds, and one type only: list[str], tuple[int, ...]")
    element, nullable, _ = _type(arguments[0], f"{path}[]", above)
    return ArrayType(element, nullable)


def _map(arguments: tuple[Any, ...], path: str, above: tuple[type, ...]) -> MapType:
    if len(arguments) != 2:
        raise BadSchema(f"{path}: say what the dict holds: dict[str, int]")
    key, _, _ = _type(arguments[0], f"{path} (key)", above)
    value, nullable, _ = _type(arguments[1], f"{path}{{}}", above)
    return MapType(key, value, nullable)
