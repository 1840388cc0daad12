"""Paths to nested fields: names separated by dots, with backticks around names that contain dots (KIP-821)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.connect.records import Field, Schema
from odradek.connect.transforms.parts import CannotTransform, as_map, field_value


@dataclass(frozen=True, slots=True)
class FieldPath:
    steps: tuple[str, ...]

    @classmethod
    def nested(cls, text: str) -> FieldPath:
        """Raises ValueError for a backtick without its partner."""
        steps, rest = [], text
        while rest:
            name, rest = _quoted(text, rest) if rest.startswith("`") else _plain(rest)
            steps.append(name)
        if text.endswith("."):
            steps.append("")
        return cls(tuple(steps) or ("",))

    def field(self, schema: Schema) -> Field | None:
        current: Schema | None = schema
        for step in self.steps[:-1]:
            current = None if current is None else current.of(step)
        return next((field for field in current.fields if field.name == self.steps[-1]), None) if current else None

    def in_map(self, value: Mapping[str, Any]) -> Any:  # noqa: ANN401
        current: Any = value
        for step in self.steps[:-1]:
            current = as_map(current, "nested field access").get(step)
            if current is None:
                return None
        return as_map(current, "nested field access").get(self.steps[-1])

    def in_struct(self, schema: Schema, value: Any, *, defaults: bool) -> Any:  # noqa: ANN401
        for step in self.steps[:-1]:
            if value is None:
                return None
            found = _member(schema, value, step)
            schema, value = found.schema, field_value(value, found, defaults=True)
        return None if value is None else field_value(value, _member(schema, value, self.steps[-1]), defaults=defaults)


def _member(schema: Schema, value: object, name: str) -> Field:
    for field in schema.fields:
        if field.name == name and isinstance(value, Mapping):
            return field
    raise CannotTransform(f"there is no field {name!r} in a struct of a nested path")


def _plain(rest: str) -> tuple[str, str]:
    name, _, after = rest.partition(".")
    return name, after


def _quoted(text: str, rest: str) -> tuple[str, str]:
    """A name in backticks ends at a backtick before a dot or the end, unless a backslash is before it."""
    name, at = "", 1
    while True:
        end = rest.find("`", at)
        if end < 0 or (end == len(rest) - 1 and rest[end - 1] == "\\"):
            raise ValueError(f"the path {text!r} has a backtick without its partner")
        if end == len(rest) - 1:
            return name + rest[at:end], ""
        if rest[end + 1] != ".":
            name, at = name + rest[at : end + 1], end + 1
        elif rest[end - 1] == "\\":
            name, at = name + rest[at : end - 1] + "`", end + 1
        else:
            return name + rest[at:end], rest[end + 2 :]
