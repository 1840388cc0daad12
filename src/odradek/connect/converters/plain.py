"""Converters of single values: text, bytes, numbers and booleans, as Kafka's own serializers write them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from odradek.connect.conversion import CannotConvert, NoOptions
from odradek.connect.literals import literal_text, parsed_literal
from odradek.connect.options import option
from odradek.connect.records import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, STRING, Kind, Schema
from odradek.connect.values import WrongType, checked

KAFKA = "org.apache.kafka.connect."


def _encoding(name: str) -> str | None:
    try:
        "".encode(name)
    except LookupError:
        return "is not the name of an encoding"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StringOptions:
    converter_encoding: str = option("The encoding of the text.", default="UTF-8", check=_encoding)


class StringConverter:
    """Text. Other values are written as text, too; it is read as text."""

    Config: ClassVar[type] = StringOptions

    def __init__(self, config: StringOptions, *, is_key: bool) -> None:  # noqa: ARG002 (the protocol of converters)
        self._encoding = config.converter_encoding

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:  # noqa: ARG002
        if value is None:
            return None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            return text.encode(self._encoding)
        except UnicodeEncodeError as wrong:
            raise CannotConvert(f"a text for {topic!r} is not {self._encoding}: {wrong}") from wrong

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return STRING.or_null(), None
        try:
            return STRING.or_null(), data.decode(self._encoding)
        except UnicodeDecodeError as wrong:
            raise CannotConvert(f"a record of {topic!r} is not {self._encoding}: {wrong}") from wrong


class ByteArrayConverter:
    """Bytes, as they are."""

    Config: ClassVar[type] = NoOptions

    def __init__(self, config: NoOptions, *, is_key: bool) -> None:
        pass

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.kind is not Kind.BYTES:
            raise CannotConvert(f"a value for {topic!r} is {schema.kind}, but the converter writes bytes")
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise CannotConvert(f"a value for {topic!r} is {type(value).__name__}, but the converter writes bytes")
        return bytes(value)

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:  # noqa: ARG002
        return BYTES.or_null(), data


class _Packed:
    """A value of fixed size, big-endian."""

    Config: ClassVar[type] = NoOptions
    schema: ClassVar[Schema]
    packing: ClassVar[struct.Struct]

    def __init__(self, config: NoOptions, *, is_key: bool) -> None:
        pass

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is not None and schema.kind is not self.schema.kind:
            raise CannotConvert(f"a value for {topic!r} is {schema.kind}, but the converter writes {self.schema.kind}")
        if value is None:
            return None
        try:
            return self.packing.pack(checked(self.schema, value, f"a value for {topic!r}"))
        except (WrongType, struct.error, OverflowError) as wrong:
            raise CannotConvert(str(wrong)) from wrong

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is None:
            return self.schema.or_null(), None
        if len(data) != self.packing.size:
            raise CannotConvert(
                f"a record of {topic!r} has {len(data)} bytes, but {self.schema.kind} has {self.packing.size}"
            )
        return self.schema.or_null(), self.packing.unpack(data)[0]


class ShortConverter(_Packed):
    """Integers of 16 bits."""

    schema, packing = INT16, struct.Struct(">h")


class IntegerConverter(_Packed):
    """Integers of 32 bits."""

    schema, packing = INT32, struct.Struct(">i")


class LongConverter(_Packed):
    """Integers of 64 bits."""

    schema, packing = INT64, struct.Struct(">q")


class FloatConverter(_Packed):
    """Floating point numbers of 32 bits."""

    schema, packing = FLOAT32, struct.Struct(">f")


class DoubleConverter(_Packed):
    """Floating point numbers of 64 bits."""

    schema, packing = FLOAT64, struct.Struct(">d")


class BooleanConverter(_Packed):
    """Booleans, one byte."""

    schema, packing = BOOLEAN, struct.Struct(">?")

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:
        if data is not None and data not in (b"\0", b"\1"):
            raise CannotConvert(f"a record of {topic!r} is {data[:8]!r}, but a boolean is one byte, 0 or 1")
        return super().decode(topic, data)


class SimpleHeaderConverter:
    """Headers as text, from which numbers, booleans, times, arrays and maps are recognised."""

    Config: ClassVar[type] = NoOptions

    def __init__(self, config: NoOptions, *, is_key: bool) -> None:
        pass

    def encode(self, topic: str, schema: Schema | None, value: object) -> bytes | None:  # noqa: ARG002
        return None if value is None else literal_text(schema, value).encode()

    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, object]:  # noqa: ARG002
        if data is None:
            return None, None
        try:
            return parsed_literal(data.decode())
        except UnicodeDecodeError:
            return BYTES, data
