"""Converters: from values to the bytes of a record and back. This module has the interface and the default.

A converter is a class with a dataclass of options, as an entry point in `odradek.converters`. The option
`value.converter` names it, and options that begin with `value.converter.` configure it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from odradek.connect.options import Parsed, definitions, parse, unknown
from odradek.connect.plugins import plugin
from odradek.connect.records import Header, Record, Schema

CONVERTERS = "odradek.converters"
PLAIN_JSON = "plain-json"


class CannotConvert(ValueError):
    """A value that the converter cannot encode, or bytes that it cannot decode."""


class CannotConvertKey(CannotConvert):
    """The key is to blame, not the value."""


class CannotConvertHeader(CannotConvert):
    """A header is to blame."""


class Converter(Protocol):
    """Encodes and decodes keys or values. `headers`: a converter may read and add headers, such as schema ids."""

    Config: ClassVar[type]

    def __init__(self, config: Any, *, is_key: bool) -> None: ...  # noqa: ANN401

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """The bytes of a value. None stays None: a tombstone. Raises CannotConvert."""
        ...

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        """The schema, if the format has one, and the value. Raises CannotConvert."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    pass


class PlainJson:
    """JSON without schemas: what any program reads. The default for keys and values.

    Times and dates are ISO texts, decimals texts, and bytes base64.
    """

    Config: ClassVar[type] = NoOptions

    def __init__(self, config: NoOptions, *, is_key: bool) -> None:
        pass

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:  # noqa: ARG002
        if value is None:
            return None
        try:
            return msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise CannotConvert(f"a value for {topic!r} is not JSON: {wrong}") from wrong

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return None, None
        try:
            return None, msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            raise CannotConvert(f"a record of {topic!r} is not JSON: {wrong}") from wrong


def converter(given: Mapping[str, str], which: str, *, is_key: bool, default: str = PLAIN_JSON) -> Converter:
    """The converter that `key.converter` or `value.converter` names, with its options."""
    name = given.get(which, default)
    if name == PLAIN_JSON:
        return PlainJson(NoOptions(), is_key=is_key)
    kind: type[Converter] = plugin(name, CONVERTERS).loaded
    prefix = f"{which}."
    options = {key.removeprefix(prefix): text for key, text in given.items() if key.startswith(prefix)}
    parsed: Parsed[Any] = parse(kind.Config, options)
    known = [each.name for each in definitions(kind.Config)]
    wrong = parsed.errors + [told for _, told in unknown(options, parsed.used, known)]
    if wrong or parsed.config is None:
        raise ValueError(f"{which}: {'; '.join(wrong)}")
    return kind(parsed.config, is_key=is_key)


@dataclass(slots=True)
class Encoded:
    """A record as a producer sends it. Treat it as immutable. Not frozen, like Record."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None
    partition: int | None
    # Called with the record's offset in the topic when the broker has it.
    stored: Callable[[int], None] | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """The converters of a connector. Without a converter, headers are text, or JSON for other values."""

    key: Converter
    value: Converter
    header: Converter | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], default: str = PLAIN_JSON) -> Conversion:
        return cls(
            converter(given, "key.converter", is_key=True, default=default),
            converter(given, "value.converter", is_key=False, default=default),
            converter(given, "header.converter", is_key=False) if "header.converter" in given else None,
        )

    def encoded(self, record: Record) -> Encoded:
        try:  # no context manager: this runs for every record
            key = self.key.encode(record.topic, record.key_schema, record.key)
        except CannotConvert as wrong:
            raise CannotConvertKey(f"the key: {wrong}") from wrong
        return Encoded(
            record.topic,
            key,
            self.value.encode(record.topic, record.value_schema, record.value),
            [(header.key, self._header_bytes(record.topic, header)) for header in record.headers]
            if record.headers
            else [],
            record.timestamp_ms,
            record.partition,
        )

    def decoded(
        self, topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
    ) -> Record:
        with _blaming_the_key():
            key_schema, read_key = self.key.decode(topic, key)
        value_schema, read_value = self.value.decode(topic, value)
        return Record(
            topic=topic,
            key=read_key,
            value=read_value,
            key_schema=key_schema,
            value_schema=value_schema,
            headers=tuple(self._header(topic, name, data) for name, data in headers),
        )

    def _header_bytes(self, topic: str, header: Header) -> bytes | None:
        if self.header is None:
            return _header_bytes(header.value)
        with _blaming(header.key):
            return self.header.encode(topic, header.schema, header.value)

    def _header(self, topic: str, name: str, data: bytes | None) -> Header:
        if self.header is None:
            return Header(name, _header_value(data))
        with _blaming(name):
            schema, value = self.header.decode(topic, data)
        return Header(name, value, schema)


@contextmanager
def _blaming_the_key() -> Iterator[None]:
    try:
        yield
    except CannotConvert as wrong:
        raise CannotConvertKey(f"the key: {wrong}") from wrong


@contextmanager
def _blaming(header: str) -> Iterator[None]:
    try:
        yield
    except CannotConvert as wrong:
        raise CannotConvertHeader(f"the header {header!r}: {wrong}") from wrong


def _header_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()


def _header_value(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
