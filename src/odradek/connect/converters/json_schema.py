"""JSON with a JSON Schema in a schema registry, in Confluent's framing and with Confluent's annotations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import msgspec

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.json_choices import choice, chosen, has_choices, is_choice, plain
from odradek.connect.converters.json_references import expanded
from odradek.connect.converters.json_values import from_json, to_json
from odradek.connect.converters.registry import Registry, RegistryOptions, Stored, framed, opened
from odradek.connect.options import option
from odradek.connect.records import BOOLEAN, FLOAT64, INT64, STRING, Field, Kind, Schema, array, mapping, struct

DEPTH_MAX = 100
_TYPES = {
    Kind.INT8: ("integer", "int8"),
    Kind.INT16: ("integer", "int16"),
    Kind.INT32: ("integer", "int32"),
    Kind.INT64: ("integer", "int64"),
    Kind.FLOAT32: ("number", "float32"),
    Kind.FLOAT64: ("number", "float64"),
    Kind.BOOLEAN: ("boolean", None),
    Kind.STRING: ("string", None),
    Kind.BYTES: ("string", "bytes"),
}
_KINDS = {name: kind for kind, (_, name) in _TYPES.items() if name is not None}
_PLAIN = {"integer": INT64, "number": FLOAT64, "boolean": BOOLEAN, "string": STRING}
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaOptions(RegistryOptions):
    decimal_format: Literal["BASE64", "NUMERIC"] = option("How decimals are written.", default="BASE64")


class JsonSchemaConverter:
    """JSON in Confluent's framing: the id of its JSON Schema, then the value."""

    Config: ClassVar[type] = JsonSchemaOptions

    def __init__(self, config: JsonSchemaOptions, *, is_key: bool) -> None:
        if not config.schema_registry_url or config.schema is not None:
            raise ValueError('the JSON Schema converter needs "schema.registry.url", and no "schema"')
        self._config, self._is_key = config, is_key
        self._registry = Registry(config)
        self._numeric = config.decimal_format == "NUMERIC"
        cached = lru_cache(config.schemas_cache_size)
        self._written: Callable[[Schema], str] = cached(lambda schema: json.dumps(json_schema(schema)))
        self._choosing: Callable[[Schema], bool] = cached(has_choices)
        self._read: dict[int, tuple[Schema, bool]] = {}

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        if schema is None:
            raise CannotConvert(f"a value for {topic!r} has no schema: use a source with schemas, or another converter")
        try:
            told = to_json(schema, value, numeric=self._numeric)
            told = plain(schema, told) if self._choosing(schema) else told
            body = _NUMBERS.encode(told) if self._numeric else msgspec.json.encode(told)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise CannotConvert(f"a value for {topic!r} cannot be written as JSON: {wrong}") from wrong
        subject = self._config.subject(topic, schema.name, is_key=self._is_key)
        return framed(self._registry.id_of(subject, "JSON", self._written(schema)), body)

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return None, None
        schema_id, body = opened(topic, data)
        schema, is_choosing = self._reading(topic, schema_id)
        try:
            value = msgspec.json.decode(body)
            return schema, from_json(schema, chosen(schema, value) if is_choosing else value)
        except CannotConvert:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise CannotConvert(f"a record of {topic!r} is not JSON: {wrong}") from wrong
        except ValueError as wrong:
            raise CannotConvert(f"a record of {topic!r} does not have its JSON Schema: {wrong}") from wrong

    def _reading(self, topic: str, schema_id: int) -> tuple[Schema, bool]:
        """The schema, and whether a value may have several. Kept, because a schema may refer to many others."""
        known = self._read.get(schema_id)
        if known is None:
            stored = self._registry.stored(schema_id)
            if stored.kind != "JSON":
                raise CannotConvert(
                    f"a record of {topic!r} has schema {schema_id}, which is {stored.kind} and not JSON"
                )
            schema = _read(stored)
            known = schema, has_choices(schema)
            while len(self._read) >= self._config.schemas_cache_size:
                self._read.pop(next(iter(self._read)))
            self._read[schema_id] = known
        return known


def json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON Schema of a schema; `connect.*` keeps what JSON Schema cannot say."""
    if is_choice(schema):
        parts = [json_schema(replace(field.schema, optional=False)) for field in schema.fields]
        return {"oneOf": [*([{"type": "null"}] if schema.optional else []), *parts]}
    told = _of_kind(schema)
    more = {"title": schema.name, "connect.version": schema.version, "connect.doc": schema.doc}
    told |= {name: value for name, value in more.items() if value is not None}
    if schema.parameters:
        told["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        told["default"] = to_json(replace(schema, default=None), schema.default)
    return {"oneOf": [{"type": "null"}, told]} if schema.optional else told


def _of_kind(schema: Schema) -> dict[str, Any]:
    match schema.kind:
        case Kind.STRUCT:
            return {
                "type": "object",
                "properties": {
                    field.name: {**json_schema(field.schema), "connect.index": index}
                    for index, field in enumerate(schema.fields)
                },
            }
        case Kind.ARRAY if schema.items is not None:
            return {"type": "array", "items": json_schema(schema.items)}
        case Kind.MAP if schema.keys is not None and schema.items is not None:
            if schema.keys.kind is Kind.STRING and not schema.keys.optional:
                items = json_schema(schema.items)
                return {"type": "object", "connect.type": "map", "additionalProperties": items}
            raise CannotConvert("a map whose keys are not text has no JSON Schema here")
    kind, connect = _TYPES[schema.kind]
    return {"type": kind} if connect is None else {"type": kind, "connect.type": connect}


def _read(stored: Stored) -> Schema:
    try:
        return connect_schema(expanded(json.loads(stored.text), _documents(stored)))
    except ValueError as wrong:
        raise CannotConvert(f"not a JSON Schema that can be read: {wrong}") from wrong


def _documents(stored: Stored) -> dict[str, object]:
    """All documents that a schema refers to, also through others, by the names that references use."""
    found: dict[str, object] = {}
    for name, each in stored.references.items():
        found |= _documents(each) | {name: json.loads(each.text)}
    return found


def connect_schema(told: object, depth: int = 0) -> Schema:
    """The schema of a JSON Schema. Raises ValueError for what Kafka Connect has no type for."""
    if not isinstance(told, Mapping) or depth > DEPTH_MAX:
        raise ValueError(f"{told!r} is not a schema" if depth <= DEPTH_MAX else "the schema is nested too deep")
    choices = told.get("oneOf") or told.get("anyOf")
    types = told.get("type")
    if isinstance(choices, list):
        others = [each for each in choices if not (isinstance(each, Mapping) and each.get("type") == "null")]
        if not others:
            raise ValueError("oneOf and anyOf without a schema other than null have no type in Kafka Connect")
        found = [connect_schema(each, depth + 1) for each in others]
        one = found[0] if len(found) == 1 else choice(found)
        return one if len(others) == len(choices) else one.or_null()
    if isinstance(types, list):
        others = [each for each in types if each != "null"]
        found = [connect_schema({**told, "type": each}, depth + 1) for each in others]
        if not found:
            raise ValueError(f"the types {types} have no type in Kafka Connect")
        one = found[0] if len(found) == 1 else choice(found)
        return one if len(others) == len(types) else one.or_null()
    schema = _connect_kind(told, depth)
    changes: dict[str, Any] = {
        "name": told.get("title"),
        "version": told.get("connect.version"),
        "doc": told.get("connect.doc"),
        "parameters": {str(name): str(value) for name, value in (told.get("connect.parameters") or {}).items()},
    }
    schema = replace(schema, **changes)
    return schema if told.get("default") is None else replace(schema, default=from_json(schema, told["default"]))


def _connect_kind(told: Mapping[str, Any], depth: int) -> Schema:
    connect, kind = told.get("connect.type"), told.get("type")
    if connect in _KINDS:
        return Schema(kind=_KINDS[connect])
    if kind == "array":
        return array(connect_schema(told.get("items"), depth + 1))
    if kind == "object" and (connect == "map" or "properties" not in told):
        return mapping(STRING, connect_schema(told.get("additionalProperties"), depth + 1))
    if kind == "object":
        return struct([(field.name, field.schema) for field in _fields(told, depth)])
    if kind in _PLAIN:
        return _PLAIN[kind]
    raise ValueError(f"the type {kind!r} has no type in Kafka Connect")


def _fields(told: Mapping[str, Any], depth: int) -> list[Field]:
    """Schemas of other writers have no index: their fields are in the order of the text, and null if not required."""
    properties = told["properties"]
    if all(isinstance(each, Mapping) and "connect.index" in each for each in properties.values()):
        ordered = sorted(properties.items(), key=lambda pair: pair[1]["connect.index"])
        return [Field(name, connect_schema(each, depth + 1)) for name, each in ordered]
    required = told.get("required", ())
    found = [Field(name, connect_schema(each, depth + 1)) for name, each in properties.items()]
    return [field if field.name in required else Field(field.name, field.schema.or_null()) for field in found]
