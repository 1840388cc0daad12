"""Encodes keys and values to bytes and decodes them: `value=JSON`, `value=Order`, `key=str`.

`None` stays `None` in both directions: it is a record without a key, or a tombstone.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serde(Generic[T]):
    """Encodes and decodes. Any error of `decode` becomes a BadRecord with the record's partition and offset."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]

    def to_bytes(self, value: T | None) -> bytes | None:
        return None if value is None else self.encode(value)

    def from_bytes(self, data: bytes | None) -> T | None:
        return None if data is None else self.decode(data)

    def __repr__(self) -> str:
        return self.name


def _bytes_or_text(value: bytes | str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{value!r} is neither bytes nor text; choose an encoding, for example value=odradek.client.JSON")


def _plain(value: object) -> object:
    """Converts what JSON lacks: dataclasses, enums, times, decimals."""
    return msgspec.to_builtins(value, str_keys=True)


def _dumps(value: object) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":"), ensure_ascii=False).encode()


def _packed(name: str, form: str) -> Serde[Any]:
    both = struct.Struct(form)
    return Serde(name, both.pack, lambda data: both.unpack(data)[0])


#: Bytes, unchanged. Text is written as UTF-8 and read as bytes.
BYTES: Serde[Any] = Serde("BYTES", _bytes_or_text, bytes)
#: UTF-8.
TEXT: Serde[str] = Serde("TEXT", str.encode, bytes.decode)
#: Any JSON value. Dataclasses and times are also written; they are read as dicts and text.
JSON: Serde[Any] = Serde("JSON", _dumps, json.loads)
#: As Java's LongSerializer and DoubleSerializer write them.
INT64: Serde[int] = _packed("INT64", ">q")
FLOAT64: Serde[float] = _packed("FLOAT64", ">d")
#: As Java's UUIDSerializer writes it: as text.
UUID: Serde[uuid.UUID] = Serde("UUID", lambda value: str(value).encode(), lambda data: uuid.UUID(data.decode()))

_OF_TYPE: dict[type, Serde[Any]] = {
    bytes: BYTES,
    str: TEXT,
    int: INT64,
    float: FLOAT64,
    dict: JSON,
    list: JSON,
    uuid.UUID: UUID,
}

SerdeLike = Serde[Any] | type


def json_of(type_: type[T]) -> Serde[T]:
    """JSON that is validated with a dataclass or a pydantic model."""
    if hasattr(type_, "model_validate_json"):
        model: Any = type_
        return Serde(
            f"JSON of {type_.__name__}", lambda value: value.model_dump_json().encode(), model.model_validate_json
        )
    if not dataclasses.is_dataclass(type_):
        raise TypeError(f"{type_.__name__} is neither a dataclass nor a pydantic model: write a Serde for it")

    def encode(value: T) -> bytes:
        if not isinstance(value, type_):
            raise TypeError(f"{value!r} is not of type {type_.__name__}")
        return _dumps(value)

    return Serde(f"JSON of {type_.__name__}", encode, msgspec.json.Decoder(type_).decode)


def serde_of(chosen: SerdeLike) -> Serde[Any]:
    if isinstance(chosen, Serde):
        return chosen
    return _OF_TYPE.get(chosen) or json_of(chosen)
