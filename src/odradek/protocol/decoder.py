"""Compiles the decoder of one message version into a straight-line function `decode(data, end) -> (message, stopped)`.

Neighbouring fields of fixed width, and the length prefix that follows them, are read by one `struct` call. Every
count is checked before anything is allocated: against the bytes that are left (each element takes at least
`smallest` of them) and against `limits.array_elements_max`, which bounds all arrays of a message together. Fixed
reads need no check: `data` ends where the message ends, so `struct` and indexing raise an error there.
"""

from __future__ import annotations

import struct as structs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, cast

from odradek.base import limits
from odradek.protocol import wire
from odradek.protocol.schema import FIXED, Field, Message, Struct, array, binary, covers, int32, string, struct, uuid
from odradek.protocol.source import Source


def compile_decoder(cls: type[Message], version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return _Decoder(version, cls.is_flexible(version)).build(cls)


class _Decoder:
    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._source = Source(wire=wire, limits=limits, new=object.__new__, repeat=repeat, unpack=structs.unpack_from)
        for name in (
            "finish_uvarint",
            "skip_tagged",
            "tagged_count",
            "tagged_field",
            "overrun",
            "too_many",
            "not_nullable",
        ):
            self._source.names[name] = getattr(wire, name)
        self._run: list[tuple[str, str]] = []  # (format, target) of fixed-width reads not yet emitted

    def build(self, cls: type[Message]) -> Callable[[bytes, int], tuple[Any, int]]:
        with self._source.block("def decode(data, end):"):
            self._source.line("p = 0")
            self._source.line("left = limits.array_elements_max")
            message = self._struct(cls)
            self._flush()
            self._source.line(f"return {message}, p")
        return self._source.build("decode", f"<decode {cls.__name__} v{self._version}>")

    def _struct(self, cls: type[Struct]) -> str:
        source = self._source
        name = source.fresh("s")
        source.line(f"{name} = new({source.constant('C', cls, lambda: cls)})")
        tagged = []
        for row in cls.FIELDS:
            target = f"{name}.{row.name}"
            if not covers(row.versions, self._version):
                source.line(f"{target} = {self._default(row)}")
            elif row.tag is not None:
                source.line(f"{target} = {self._default(row)}")
                tagged.append((row, target))
            else:
                self._value(row.kind, row, target)
        if self._flexible:
            self._tagged(tagged)
        return name

    def _default(self, row: Field) -> str:
        if row.factory is list:
            return "[]"
        if row.factory is not None:
            return f"{self._source.constant('C', row.factory, lambda: row.factory)}()"
        return repr(row.default)

    def _value(self, kind: Callable[..., Any], row: Field, target: str) -> None:
        if kind in FIXED:
            self._run.append((FIXED[kind], target))
        elif kind is string:
            self._sized(row, target, "h", "data[p:q].decode()")
        elif kind is binary:
            self._sized(row, target, "i", "data[p:q]")
        elif kind is array:
            self._array(row, target)
        else:
            self._nested(row, target)

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run:
            packed = structs.Struct(">" + "".join(layout for layout, _ in run))
            unpack = self._source.constant("U", packed.format, lambda: packed.unpack_from)
            targets = ", ".join(target for _, target in run)
            self._source.line(f"{targets}, = {unpack}(data, p)")
            self._source.line(f"p += {packed.size}")

    def _length(self, layout: str) -> str:
        """Read a length prefix: a plain one, or the varint of flexible versions, which holds the length plus one."""
        count = self._source.fresh("n")
        if not self._flexible:
            self._run.append((layout, count))
            self._flush()
        elif self._run:
            self._run.append(("B", count))
            self._flush()
        else:
            self._source.line(f"{count} = data[p]")
            self._source.line("p += 1")
        if self._flexible:
            self._source.line(f"if {count} > 127: {count}, p = finish_uvarint(data, p, {count})")
        return count

    @contextmanager
    def _present(self, row: Field, target: str, count: str) -> Iterator[None]:
        """The body runs only for a non-null value, with `count` as its length."""
        with self._source.block(f"if {count}:" if self._flexible else f"if {count} >= 0:"):
            yield
        if covers(row.nullable, self._version):
            self._source.line("else:" if self._flexible else f"elif {count} == -1:")
            self._source.line(f"    {target} = None")
        if not self._flexible or not covers(row.nullable, self._version):
            self._source.line(f"else: not_nullable({row.name!r})")

    def _sized(self, row: Field, target: str, layout: str, expression: str) -> None:
        count = self._length(layout)
        with self._present(row, target, count):
            self._source.line(f"q = p + {count} - 1" if self._flexible else f"q = p + {count}")
            self._source.line("if q > end: overrun()")
            self._source.line(f"{target} = {expression}")
            self._source.line("p = q")

    def _array(self, row: Field, target: str) -> None:
        source = self._source
        count = self._length("i")
        smallest = self._smallest_element(row.element)
        with self._present(row, target, count):
            if self._flexible:
                source.line(f"{count} -= 1")
            source.line(f"if {count} > left or {count} * {smallest} > end - p: too_many()")
            source.line(f"left -= {count}")
            if row.element in FIXED:
                self._fixed_elements(row, target, count, smallest)
            else:
                self._elements(row, target, count)

    def _fixed_elements(self, row: Field, target: str, count: str, size: int) -> None:
        if row.element is uuid:
            self._source.line(f"{target} = [data[i:i + 16] for i in range(p, p + 16 * {count}, 16)]")
        else:
            self._source.line(f"{target} = list(unpack(f'>{{{count}}}{FIXED[row.element]}', data, p))")
        self._source.line(f"p += {size} * {count}")

    def _elements(self, row: Field, target: str, count: str) -> None:
        source = self._source
        items, add = source.fresh("items"), source.fresh("add")
        source.line(f"{target} = {items} = []")
        source.line(f"{add} = {items}.append")
        with source.block(f"for _ in repeat(None, {count}):"):
            if row.element is string:
                element = source.fresh("e")
                self._sized(Field(string, "0+"), element, "h", "data[p:q].decode()")
            else:
                element = self._struct(row.element)
                self._flush()
            source.line(f"{add}({element})")

    def _nested(self, row: Field, target: str) -> None:
        if not covers(row.nullable, self._version):
            self._source.line(f"{target} = {self._struct(row.element)}")
            return
        present = self._source.fresh("n")
        self._run.append(("b", present))
        self._flush()
        with self._source.block(f"if {present} == 1:"):
            element = self._struct(row.element)
            self._flush()
            self._source.line(f"{target} = {element}")
        self._source.line(f"elif {present} == -1: {target} = None")
        self._source.line(f"else: not_nullable({row.name!r})")

    def _tagged(self, tagged: list[tuple[Field, str]]) -> None:
        source = self._source
        count = source.fresh("t")
        self._run.append(("B", count))
        self._flush()
        if not tagged:
            source.line(f"if {count}: p = skip_tagged(data, p, {count})")
            return
        with source.block(f"if {count}:"):
            source.line(f"{count}, p = tagged_count(data, p, {count})")
            tag, stop = source.fresh("tag"), source.fresh("stop")
            with source.block(f"for _ in repeat(None, {count}):"):
                source.line(f"{tag}, p, {stop} = tagged_field(data, p)")
                for row, target in tagged:
                    with source.block(f"if {tag} == {row.tag}:"):
                        self._value(row.kind, row, target)
                        self._flush()
                        source.line(f"if p != {stop}: overrun()")
                source.line(f"p = {stop}")

    def _smallest_element(self, element: Callable[..., Any] | type[Struct]) -> int:
        if element in FIXED:
            return structs.calcsize(">" + FIXED[element])
        if element is string:
            return 1 if self._flexible else 2
        return self._smallest_struct(cast("type[Struct]", element))

    def _smallest_struct(self, cls: type[Struct]) -> int:
        rows = [row for row in cls.FIELDS if covers(row.versions, self._version)]
        plain = [row for row in rows if row.tag is None]
        return sum(map(self._smallest_field, plain)) + (1 if self._flexible else 0)

    def _smallest_field(self, row: Field) -> int:
        if row.kind in FIXED:
            return structs.calcsize(">" + FIXED[row.kind])
        if row.kind is struct:
            return 1 if covers(row.nullable, self._version) else self._smallest_struct(row.element)
        if self._flexible:
            return 1
        return structs.calcsize(FIXED[int32]) if row.kind in (array, binary) else 2
