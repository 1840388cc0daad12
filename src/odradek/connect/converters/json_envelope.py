"""Kafka's JsonConverter: JSON with its schema in an envelope, `{"schema": …, "payload": …}`, or without."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Literal

import msgspec

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.json_schemas import schema_of_json, schema_to_json
from odradek.connect.converters.json_values import from_json, to_json
from odradek.connect.options import at_least, option
from odradek.connect.records import Schema

NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
# Decimals in NUMERIC format keep their digits.
_EXACT = msgspec.json.Decoder(float_hook=Decimal)
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions:
    schemas_enable: bool = option("Include the schema in every record.", default=True, importance="HIGH")
    schemas_cache_size: int = option("How many schemas are kept.", default=1000, importance="LOW", check=at_least(1))
    decimal_format: Literal["BASE64", "NUMERIC"] = option("How decimals are written.", default="BASE64")
    replace_null_with_default: bool = option("Write a field's default where its value is null.", default=True)
    schema_content: str | None = option("A schema for all records, which then carry none.", default=None)


class JsonConverter:
    """JSON with Kafka Connect's schema in every record; `schemas.enable=false` is JSON alone."""

    Config: ClassVar[type] = JsonOptions

    def __init__(self, config: JsonOptions, *, is_key: bool) -> None:  # noqa: ARG002 (the protocol of converters)
        self._enveloped = config.schemas_enable
        self._numeric = config.decimal_format == "NUMERIC"
        self._defaults = config.replace_null_with_default
        self._schema: Schema | None = None
        if config.schema_content:
            if not config.schemas_enable:
                raise ValueError('"schema.content" needs schemas.enable=true')
            try:
                self._schema = schema_of_json(msgspec.json.decode(config.schema_content))
            except (CannotConvert, msgspec.DecodeError) as wrong:
                raise ValueError(f'"schema.content" is not a schema in JSON: {wrong}') from None
        # By identity: the hash of a schema takes longer than the rest of a record.
        self._told: dict[int, tuple[Schema, bytes]] = {}
        self._told_max = config.schemas_cache_size
        self._read = lru_cache(config.schemas_cache_size)(lambda raw: schema_of_json(msgspec.json.decode(raw)))

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is None and value is None:
            return None
        try:
            if schema is not None:
                value = to_json(schema, value, numeric=self._numeric, defaults=self._defaults)
            payload = _NUMBERS.encode(value) if self._numeric else msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise CannotConvert(f"a value for {topic!r} cannot be written as JSON: {wrong}") from wrong
        if not self._enveloped or self._schema is not None:
            return payload
        return b'{"schema":%b,"payload":%b}' % (b"null" if schema is None else self._schema_bytes(schema), payload)

    def _schema_bytes(self, schema: Schema) -> bytes:
        known = self._told.get(id(schema))
        if known is None:
            if len(self._told) >= self._told_max:
                self._told.clear()
            told = _NUMBERS.encode(schema_to_json(schema, numeric=self._numeric))
            known = self._told[id(schema)] = (schema, told)
        return known[1]

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return None, None
        try:
            if not self._enveloped:
                return None, msgspec.json.decode(data)
            if self._schema is not None:
                return self._schema, from_json(self._schema, _EXACT.decode(data), defaults=self._defaults)
            schema, payload = self._opened(data)
            if schema is None:
                return None, payload
            return schema, from_json(schema, payload, defaults=self._defaults)
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise CannotConvert(f"a record of {topic!r} is not JSON: {wrong}") from wrong
        except CannotConvert as wrong:
            raise CannotConvert(f"a record of {topic!r}: {wrong}") from wrong

    def _opened(self, data: bytes) -> tuple[Schema | None, Any]:
        """The schema's bytes are the key of the cache, so that it is not read again for every record."""
        try:
            envelope = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        except msgspec.ValidationError:
            raise CannotConvert(NO_ENVELOPE) from None
        if envelope.keys() != {"schema", "payload"}:
            raise CannotConvert(NO_ENVELOPE)
        schema = self._read(bytes(envelope["schema"]))
        return schema, (msgspec.json.decode if schema is None else _EXACT.decode)(envelope["payload"])
