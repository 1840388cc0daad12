"""What transforms share: the part of a record that they change, and access to fields of structs and maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from odradek.connect.options import option
from odradek.connect.records import Field, Kind, Record, Schema

SCHEMAS_MAX = 1_000


class CannotTransform(ValueError):
    """A record that a transform cannot change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    replace_null_with_default: bool = option(
        "Whether a field's default replaces null when a value is rewritten.", default=True
    )


class OnPart(ABC):
    """A transform of one part of a record. The subclasses for keys and for values say which part."""

    @abstractmethod
    def schema_of(self, record: Record) -> Schema | None: ...

    @abstractmethod
    def value_of(self, record: Record) -> Any: ...  # noqa: ANN401

    @abstractmethod
    def changed(self, record: Record, schema: Schema | None, value: object, **more: Any) -> Record: ...  # noqa: ANN401


class OnKey(OnPart):
    def schema_of(self, record: Record) -> Schema | None:
        return record.key_schema

    def value_of(self, record: Record) -> Any:  # noqa: ANN401
        return record.key

    def changed(self, record: Record, schema: Schema | None, value: object, **more: Any) -> Record:  # noqa: ANN401
        return replace(record, key=value, key_schema=schema, **more)


class OnValue(OnPart):
    def schema_of(self, record: Record) -> Schema | None:
        return record.value_schema

    def value_of(self, record: Record) -> Any:  # noqa: ANN401
        return record.value

    def changed(self, record: Record, schema: Schema | None, value: object, **more: Any) -> Record:  # noqa: ANN401
        return replace(record, value=value, value_schema=schema, **more)


class SchemaCache:
    """Schemas derived from others, each derived once. Found by identity: comparing large schemas takes longer."""

    __slots__ = ("_derive", "_known")

    def __init__(self, derive: Callable[[Schema], Schema]) -> None:
        self._derive = derive
        # The original is kept too, so that its id cannot be used again.
        self._known: dict[int, tuple[Schema, Schema]] = {}

    def __call__(self, schema: Schema) -> Schema:
        found = self._known.get(id(schema))
        if found is not None:
            return found[1]
        if len(self._known) >= SCHEMAS_MAX:
            self._known.clear()
        derived = self._derive(schema)
        self._known[id(schema)] = (schema, derived)
        return derived


def as_map(value: object, purpose: str) -> Mapping[str, Any]:
    """The fields of a value without a schema."""
    if not isinstance(value, Mapping):
        raise CannotTransform(f"only a map can be used without a schema, for {purpose}; found {_kind(value)}")
    return value


def as_struct(schema: Schema, value: object, purpose: str) -> Mapping[str, Any]:
    """The fields of a struct. A null is refused."""
    if schema.kind is not Kind.STRUCT or not isinstance(value, Mapping):
        found = schema.kind if schema.kind is not Kind.STRUCT else _kind(value)
        raise CannotTransform(f"only a struct can be used with a schema, for {purpose}; found {found}")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def field_value(value: Mapping[str, Any], field: Field, *, defaults: bool) -> Any:  # noqa: ANN401
    """The value of a struct's field; its default instead of null, if `defaults`."""
    found = value.get(field.name)
    return field.schema.default if found is None and defaults else found


def plain_struct(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    """A struct with the name, version and documentation of another one, required and without a default."""
    return replace(schema, optional=False, default=None, fields=fields)
