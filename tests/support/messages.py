"""Every message class of the protocol, and random instances of them."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator
from typing import Any

import odradek.protocol.messages
from odradek.protocol import schema
from odradek.protocol.error_codes import NAMES
from odradek.protocol.schema import Field, Message, Struct, covers

INTEGERS = {schema.int8: 7, schema.int16: 15, schema.int32: 31, schema.int64: 63}


def message_classes() -> Iterator[type[Message]]:
    for found in pkgutil.iter_modules(odradek.protocol.messages.__path__):
        module = importlib.import_module(f"odradek.protocol.messages.{found.name}")
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, Message) and cls is not Message:
                yield cls


def api_classes() -> list[type[Message]]:
    return [cls for cls in message_classes() if ".messages.p" in cls.__module__]


def versions(cls: type[Message]) -> range:
    first, last = cls.VERSIONS
    return range(first, last + 1)


def every_version() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in message_classes() for version in versions(cls)]


class Instances:
    """Random messages. `tame` uses only values that the oracles can represent: known error codes, dates near now."""

    def __init__(self, seed: int, *, tame: bool = False) -> None:
        self.random = random.Random(seed)
        self._tame = tame

    def make(self, cls: type[Struct], version: int) -> Any:
        rows = [row for row in cls.FIELDS if covers(row.versions, version)]
        return cls(**{row.name: self._field(row, version) for row in rows})

    def _field(self, row: Field, version: int) -> Any:
        if covers(row.nullable, version) and self.random.random() < 0.2:
            return None
        if row.kind is schema.array:
            return [self._value(row.element, row, version) for _ in range(self.random.choice((0, 1, 3)))]
        return self._value(row.element if row.kind is schema.struct else row.kind, row, version)

    def _value(self, kind: Any, row: Field, version: int) -> Any:
        pick = self.random
        if isinstance(kind, type):
            return self.make(kind, version)
        if kind in INTEGERS:
            return self._integer(INTEGERS[kind], row)
        if kind is schema.boolean:
            return pick.random() < 0.5
        if kind is schema.uint16:
            return pick.randrange(1 << 16)
        if kind is schema.uuid:
            return pick.choice((bytes(16), pick.randbytes(16)))
        if kind is schema.string:
            return "".join(pick.choice("abcé€😀\0") for _ in range(pick.choice((0, 1, 5, 126, 127, 300))))
        return pick.randbytes(pick.choice((0, 1, 5, 127, 20_000)))

    def _integer(self, bits: int, row: Field) -> int:
        if self._tame and row.name in NAMES:
            return self.random.randrange(-1, 100)
        if self._tame and bits >= 31 and any(word in row.name for word in ("time", "_ms", "timestamp")):
            return self.random.choice((0, 1, 86_400_000, 1_700_000_000))
        return self.random.choice((0, -1, 1, -(1 << bits), (1 << bits) - 1, self.random.randrange(1 << bits)))
