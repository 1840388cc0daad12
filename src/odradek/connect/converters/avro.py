"""Avro, with a schema registry (Confluent's framing) or with one schema for all records (plain bodies)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.avro_schemas import avro_of, connect_of
from odradek.connect.converters.registry import Registry, RegistryOptions, framed, one_of, opened
from odradek.connect.records import Kind, Schema
from odradek.connect.values import LOGICAL, WrongType, checked, from_plain, to_plain

Write = tuple[str, Any]


class AvroConverter:
    """Avro in Confluent's framing with `schema.registry.url`, or plain bodies with `schema`."""

    Config: ClassVar[type] = RegistryOptions

    def __init__(self, config: RegistryOptions, *, is_key: bool) -> None:
        one_of(config)
        self._config, self._is_key = config, is_key
        self._registry = Registry(config)
        self._writing: Callable[[Schema], Write] = lru_cache(config.schemas_cache_size)(_writing)
        self._reading: Callable[[str], tuple[Any, Schema]] = lru_cache(config.schemas_cache_size)(_reading)
        if config.schema is not None:
            try:
                self._given = self._reading(config.schema)
            except CannotConvert as wrong:
                raise ValueError(f'"schema": {wrong}') from None

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is None and value is None:
            return None
        if self._config.schema is not None:
            parsed, known = self._given
            return _body(parsed, _for_avro(known, value, "the value"))
        if schema is None:
            raise CannotConvert(
                f"a value for {topic!r} has no schema, which Avro needs: use a source with schemas, "
                'or give the converter a "schema"'
            )
        text, parsed = self._writing(schema)
        subject = self._config.subject(topic, schema.name, is_key=self._is_key)
        return framed(self._registry.id_of(subject, "AVRO", text), _body(parsed, _for_avro(schema, value, "the value")))

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return None, None
        if self._config.schema is not None:
            parsed, known = self._given
            return known, _from_avro(known, _read(topic, parsed, data))
        schema_id, body = opened(topic, data)
        text, kind = self._registry.schema_of(schema_id)
        if kind != "AVRO":
            raise CannotConvert(f"a record of {topic!r} has schema {schema_id}, which is {kind} and not AVRO")
        parsed, known = self._reading(text)
        return known, _from_avro(known, _read(topic, parsed, body))


def _fastavro() -> Any:  # noqa: ANN401 (the module has no types)
    try:
        import fastavro
    except ImportError:
        raise ValueError("the Avro converter needs fastavro: pip install 'odradek[avro]'") from None
    return fastavro


def _writing(schema: Schema) -> Write:
    told = avro_of(schema)
    try:
        return json.dumps(told), _fastavro().parse_schema(_without_logical(told))
    except Exception as wrong:
        raise CannotConvert(f"the schema has no Avro schema: {wrong}") from wrong


def _reading(text: str) -> tuple[Any, Schema]:
    try:
        told = json.loads(text)
        return _fastavro().parse_schema(_without_logical(told)), connect_of(told)
    except CannotConvert:
        raise
    except Exception as wrong:
        raise CannotConvert(f"not an Avro schema: {wrong}") from wrong


def _without_logical(told: Any) -> Any:  # noqa: ANN401 (JSON)
    """Logical types are converted here, in the same way for all formats."""
    if isinstance(told, dict):
        return {name: _without_logical(each) for name, each in told.items() if name != "logicalType"}
    return [_without_logical(each) for each in told] if isinstance(told, list) else told


def _body(parsed: Any, value: object) -> bytes:  # noqa: ANN401 (a schema of fastavro)
    stream = io.BytesIO()
    try:
        _fastavro().schemaless_writer(stream, parsed, value)
    except Exception as wrong:
        raise CannotConvert(f"the value does not have its Avro schema: {wrong}") from wrong
    return stream.getvalue()


def _read(topic: str, parsed: Any, body: bytes) -> object:  # noqa: ANN401
    stream = io.BytesIO(body)
    try:
        value = _fastavro().schemaless_reader(stream, parsed, None)
    except Exception as wrong:
        raise CannotConvert(f"a record of {topic!r} is not Avro of its schema: {wrong!r}") from wrong
    if stream.tell() != len(body):
        raise CannotConvert(f"a record of {topic!r} has {len(body) - stream.tell()} bytes after its Avro body")
    return value


def _for_avro(schema: Schema, value: object, where: str) -> object:
    if value is None:
        if schema.default is not None:
            value = schema.default
        elif schema.optional:
            return None
        else:
            raise CannotConvert(f"{where} is null, but its schema says {schema.kind} and has no default")
    try:
        plain = checked(schema, to_plain(schema, value), where)
    except WrongType as wrong:
        raise CannotConvert(str(wrong)) from None
    match schema.kind:
        case Kind.ARRAY if schema.items is not None:
            return [_for_avro(schema.items, item, f"{where}[]") for item in plain]  # type: ignore[attr-defined]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            pairs = [
                (_for_avro(schema.keys, key, f"a key of {where}"), _for_avro(schema.items, item, f"{where}[{key!r}]"))
                for key, item in plain.items()  # type: ignore[attr-defined]
            ]
            if schema.keys.kind is Kind.STRING and not schema.keys.optional:
                return dict(pairs)
            return [{"key": key, "value": item} for key, item in pairs]
        case Kind.STRUCT:
            return {
                field.name: _for_avro(field.schema, plain.get(field.name), f"{where}.{field.name}")  # type: ignore[attr-defined]
                for field in schema.fields
            }
    return plain


def _from_avro(schema: Schema, value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    if schema.name in LOGICAL:
        try:
            return from_plain(schema, value)
        except WrongType as wrong:
            raise CannotConvert(str(wrong)) from None
    match schema.kind:
        case Kind.ARRAY if schema.items is not None:
            items = schema.items
            return [_from_avro(items, item) for item in value]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            pairs = value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
            return {_from_avro(schema.keys, key): _from_avro(schema.items, item) for key, item in pairs}
        case Kind.STRUCT:
            return {field.name: _from_avro(field.schema, value[field.name]) for field in schema.fields}
    return value
