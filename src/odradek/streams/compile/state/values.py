"""Values of a Python type as values of a Spark type in state, and back."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T

from odradek.pipeline.formats.schemas import is_pydantic, struct_of
from odradek.streams.compile.state.storing import storer

NESTED = (T.StructType, T.ArrayType, T.MapType)
SCALARS = (int, float, str, bool, bytes)
Reviver = Callable[[Any], Any]


class ValueCodec:
    """For a Python type; `schema` has the one column `value`. `place` names it in errors."""

    def __init__(self, hint: Any, place: str) -> None:  # noqa: ANN401 any type annotation
        declared = dataclasses.make_dataclass("State", [("value", hint)])
        self.schema = nullable_struct(struct_of(declared))
        self.scalar = hint in SCALARS
        self._store = storer(self.schema["value"].dataType, place)
        self._revive = reviver(hint)

    def storable(self, value: Any) -> Any:  # noqa: ANN401
        """TypeError if it is none of this type."""
        return self._store(value if self.scalar else plain(value))

    def revived(self, stored: Any) -> Any:  # noqa: ANN401
        return stored if self.scalar or stored is None else self._revive(stored)


def nullable_struct(struct: T.StructType) -> T.StructType:
    """The same with nulls allowed everywhere: Spark takes no other state."""
    return T.StructType([T.StructField(f.name, nullable(f.dataType)) for f in struct])


def nullable(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return nullable_struct(kind)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


def plain(value: Any) -> Any:  # noqa: ANN401
    """Without classes: what Spark's types and Arrow can convert."""
    if isinstance(value, Row):
        return value.asDict(recursive=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, uuid.UUID) else value


def aware(stored: datetime) -> datetime:
    """Spark gives times out of state in the zone of the machine, without saying so."""
    return stored.astimezone(UTC)


def reviver(hint: Any) -> Reviver:  # noqa: ANN401
    """From what Spark gives out of state to a value of this type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return reviver(inner[0])
    if origin in (typing.Union, types.UnionType):
        return _optional(reviver(next(one for one in inner if one is not types.NoneType)))
    if is_pydantic(hint):
        return lambda stored: hint.model_validate(plain(stored))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        fields = {name: _optional(reviver(one)) for name, one in typing.get_type_hints(hint).items()}
        return lambda stored: hint(**{name: revive(stored[name]) for name, revive in fields.items()})
    if origin in (list, tuple, set, frozenset):
        element = _optional(reviver(inner[0]))
        return lambda stored: origin(map(element, stored))
    if origin is dict:
        key, value = map(reviver, inner)
        return lambda stored: {key(k): _optional(value)(v) for k, v in stored.items()}
    if hint is datetime:
        return aware
    if isinstance(hint, type) and issubclass(hint, enum.Enum | uuid.UUID):
        return hint
    return lambda stored: stored


def _optional(revive: Reviver) -> Reviver:
    return lambda stored: None if stored is None else revive(stored)


def stored_reader(schema: T.StructType) -> Callable[[Any], Row]:
    """From what Spark gives out of state to a Row whose times say their zone."""
    read = [_optional(_stored(f.dataType)) for f in schema]
    make = Row(*schema.names)

    def revive(stored: Any) -> Row:  # noqa: ANN401 a dict of the columns, or their values in order
        values = [stored[name] for name in schema.names] if isinstance(stored, Mapping) else stored
        return make(*[one(value) for one, value in zip(read, values, strict=True)])

    return revive


def _stored(kind: T.DataType) -> Reviver:
    if isinstance(kind, T.TimestampType):
        return aware
    if isinstance(kind, T.StructType):
        return stored_reader(kind)
    if isinstance(kind, T.ArrayType):
        element = _optional(_stored(kind.elementType))
        return lambda stored: [element(one) for one in stored]
    if isinstance(kind, T.MapType):
        item = _optional(_stored(kind.valueType))
        return lambda stored: {key: item(one) for key, one in stored.items()}
    return lambda stored: stored


def row_reader(schema: T.StructType) -> Callable[[Row], Row]:
    """From a Row with Arrow's values to one with Spark's: structs are Rows, maps are dicts."""
    nested = {f.name: _reader(f.dataType) for f in schema if isinstance(f.dataType, NESTED)}
    if not nested:
        return lambda row: row
    make = Row(*schema.names)
    return lambda row: make(*[nested[name](row[name]) if name in nested else row[name] for name in schema.names])


def _reader(kind: T.DataType) -> Reviver:
    if isinstance(kind, T.StructType):
        fields = {f.name: _reader(f.dataType) for f in kind}
        return lambda value: value and Row(**{name: read(value[name]) for name, read in fields.items()})
    if isinstance(kind, T.ArrayType):
        element = _reader(kind.elementType)
        return lambda value: value and [element(one) for one in value]
    if isinstance(kind, T.MapType):
        item = _reader(kind.valueType)
        return lambda value: None if value is None else {key: item(one) for key, one in value}
    return lambda value: value
