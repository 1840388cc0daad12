"""Compiles the encoder of one message version into a straight-line function `encode(message, write)`.

Neighbouring fields of fixed width, empty tagged sections (pad bytes) and the length prefix that follows are packed
by one `struct` call. A field that the version lacks is skipped, whatever its value.
"""

from __future__ import annotations

import functools
import struct as structs
from collections.abc import Callable
from typing import Any

from odradek.protocol import wire
from odradek.protocol.schema import FIXED, Field, Message, Struct, array, binary, covers, string, uuid
from odradek.protocol.source import Source


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, Callable[[bytes], None]], None]:
    return _Encoder(version, cls.is_flexible(version)).build(cls)


PREPARED_ARRAYS = 8  # replica lists and similar arrays are short: to build a layout costs more than to pack them


@functools.cache
def _array_packs(layout: str) -> tuple[Callable[..., bytes], ...]:
    return tuple(structs.Struct(f">{count}{layout}").pack for count in range(PREPARED_ARRAYS))


class _Encoder:
    def __init__(self, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._source = Source(uvarint=wire.uvarint, tagged_section=wire.tagged_section, pack=structs.pack)
        self._run: list[tuple[str, str]] = []  # (format, expression) of fixed-width writes not yet emitted

    def build(self, cls: type[Message]) -> Callable[[Any, Callable[[bytes], None]], None]:
        with self._source.block("def encode(message, write):"):
            self._source.line("pass")
            self._struct(cls, "message")
            self._flush()
        return self._source.build("encode", f"<encode {cls.__name__} v{self._version}>")

    def _struct(self, cls: type[Struct], name: str) -> None:
        rows = [row for row in cls.FIELDS if covers(row.versions, self._version)]
        for row in rows:
            if row.tag is None:
                self._value(row.kind, row, f"{name}.{row.name}")
        if self._flexible:
            self._tagged(sorted((row for row in rows if row.tag is not None), key=lambda row: row.tag or 0), name)

    def _value(self, kind: Callable[..., Any], row: Field, expression: str) -> None:
        if kind in FIXED:
            self._run.append((FIXED[kind], expression))
            return
        value = self._source.fresh("v")
        if not covers(row.nullable, self._version):
            self._source.line(f"{value} = {expression}")
            self._present(kind, row, value)
            return
        self._flush()
        self._source.line(f"{value} = {expression}")
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"write({self._null(kind)!r})")
        with self._source.block("else:"):
            self._present(kind, row, value)
            self._flush()

    def _null(self, kind: Callable[..., Any]) -> bytes:
        if kind not in (string, binary, array):
            return b"\xff"
        if self._flexible:
            return b"\0"
        return b"\xff\xff" if kind is string else b"\xff\xff\xff\xff"

    def _present(self, kind: Callable[..., Any], row: Field, value: str) -> None:
        if kind is string:
            self._source.line(f"{value} = {value}.encode()")
            self._length(f"len({value})", "h")
            self._source.line(f"write({value})")
        elif kind is binary:
            self._length(f"len({value})", "i")
            self._source.line(f"write({value})")
        elif kind is array:
            self._array(row, value)
        else:
            if covers(row.nullable, self._version):
                self._run.append(("b", "1"))
            self._struct(row.element, value)

    def _array(self, row: Field, value: str) -> None:
        self._length(f"len({value})", "i")
        if row.element is uuid:
            self._source.line(f"write(b''.join({value}))")
        elif row.element in FIXED:
            layout = FIXED[row.element]
            packs = self._source.constant("A", (array, layout), lambda: _array_packs(layout))
            short = f"{packs}[len({value})](*{value})"
            long = f"pack(f'>{{len({value})}}{layout}', *{value})"
            self._source.line(f"write({short} if len({value}) < {PREPARED_ARRAYS} else {long})")
        else:
            element = self._source.fresh("e")
            with self._source.block(f"for {element} in {value}:"):
                if row.element is string:
                    self._value(string, Field(string, "0+"), element)
                else:
                    self._struct(row.element, element)
                self._flush()

    def _length(self, length: str, layout: str) -> None:
        if not self._flexible:
            self._run.append((layout, length))
            self._flush()
            return
        count = self._source.fresh("n")
        self._source.line(f"{count} = {length} + 1")
        run, self._run = self._run, []
        short = self._packed([*run, ("B", count)])
        long = f"{self._packed(run)} + uvarint({count})" if run else f"uvarint({count})"
        self._source.line(f"write({short} if {count} < 128 else {long})")

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self._source.line(f"write({self._packed(run)})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        layout = ">" + "".join(part for part, _ in run)
        pack = self._source.constant("P", layout, lambda: structs.Struct(layout).pack)
        return f"{pack}({', '.join(expression for _, expression in run if expression)})"

    def _tagged(self, rows: list[Field], name: str) -> None:
        source = self._source
        if not rows:
            self._run.append(("x", ""))
            return
        self._flush()
        section, held = source.fresh("t"), source.fresh("w")
        source.line(f"{section} = []")
        source.line(f"{held} = write")
        for row in rows:
            with source.block(f"if {self._differs(row, f'{name}.{row.name}')}:"):
                content = source.fresh("parts")
                source.line(f"{content} = []")
                source.line(f"write = {content}.append")
                self._value(row.kind, row, f"{name}.{row.name}")
                self._flush()
                source.line(f"{section}.append(({row.tag}, b''.join({content})))")
        source.line(f"write = {held}")
        source.line(f"write(tagged_section({section}) if {section} else b'\\0')")

    def _differs(self, row: Field, expression: str) -> str:
        if row.default is None and row.factory is None:
            return f"{expression} is not None"
        default = self._source.constant("D", row, row.fresh_default)
        return f"{expression} != {default}"
