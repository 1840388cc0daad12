"""The error codes of a reply: of the reply itself and of its topics, partitions and groups."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.schema import Message, Struct

# AddPartitionsToTxn has a name of its own.
NAMES = ("error_code", "partition_error_code")


class _Places(NamedTuple):
    """The fields of a struct that hold error codes."""

    codes: tuple[str, ...]
    inside: tuple[str, ...]  # structs, or lists of them


def error_codes(reply: Message) -> list[int]:
    """All error codes except NONE, with repetitions."""
    return [code for code in _codes(reply) if code]


def _codes(part: Struct) -> Iterator[int]:
    codes, inside = _places(type(part))
    for name in codes:
        yield getattr(part, name)
    for name in inside:
        value = getattr(part, name)
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield from _codes(each)


@functools.cache
def _places(cls: type[Struct]) -> _Places:
    codes = tuple(row.name for row in cls.FIELDS if row.name in NAMES)
    inside = tuple(
        row.name
        for row in cls.FIELDS
        if isinstance(row.element, type) and issubclass(row.element, Struct) and any(_places(row.element))
    )
    return _Places(codes, inside)
