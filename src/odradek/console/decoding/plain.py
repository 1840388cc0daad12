"""Decoders without a schema: JSON, text, hex and the numbers that Java's serializers write."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from odradek.console.decoding.interface import Shown, Textual, Undecodable
from odradek.console.words import plural

PRETTY_BYTES_MAX = 1 << 20  # larger documents are shown as they are
HEX_ROW_BYTES = 16


def cut(text: str, chars_max: int) -> tuple[str, bool]:
    return (text, False) if len(text) <= chars_max else (text[:chars_max], True)


def hex_rows(data: bytes, bytes_max: int) -> str:
    """Sixteen bytes a row: offset, hex, and the printable ASCII characters."""
    rows = []
    for at in range(0, min(len(data), bytes_max), HEX_ROW_BYTES):
        row = data[at : at + HEX_ROW_BYTES]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        rows.append(f"{at:08x}  {row.hex(' ', 1):<47}  {letters}")
    return "\n".join(rows)


def as_hex(data: bytes, chars_max: int, why: str, *, pretty: bool, failed: bool = False) -> Shown:
    if pretty:
        bytes_max = max(chars_max // 80, 1) * HEX_ROW_BYTES
        return Shown(kind="hex", text=hex_rows(data, bytes_max), why=why, is_cut=len(data) > bytes_max, failed=failed)
    bytes_max = max(chars_max // 2, 1)
    return Shown(kind="hex", text=data[:bytes_max].hex(), why=why, is_cut=len(data) > bytes_max, failed=failed)


def as_json_text(data: bytes, *, pretty: bool) -> str:
    """The document with its own numbers and texts, indented or on one line."""
    if len(data) <= PRETTY_BYTES_MAX:
        data = msgspec.json.format(data, indent=2 if pretty else -1)
    return data.decode(errors="replace")


def parsed_json(data: bytes) -> Any:  # noqa: ANN401 (JSON)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
        raise Undecodable(f"not JSON: {wrong}") from None


@dataclass(frozen=True, slots=True)
class Json:
    textual: ClassVar[Textual | None] = "json"

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return parsed_json(data)

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        try:
            parsed_json(data)
            text, is_cut = cut(as_json_text(data, pretty=pretty), chars_max)
        except Undecodable as wrong:
            return as_hex(data, chars_max, str(wrong), pretty=pretty, failed=True)
        return Shown(kind="json", text=text, why="decoded as JSON", is_cut=is_cut)


@dataclass(frozen=True, slots=True)
class Text:
    textual: ClassVar[Textual | None] = "text"

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return data.decode(errors="replace")

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:  # noqa: ARG002
        # A character has at most four bytes.
        text, is_cut = cut(data[: 4 * chars_max].decode(errors="replace"), chars_max)
        return Shown(kind="text", text=text, why="decoded as UTF-8", is_cut=is_cut or len(data) > 4 * chars_max)


@dataclass(frozen=True, slots=True)
class Hex:
    textual: ClassVar[Textual | None] = None

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return data.hex()

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        return as_hex(data, chars_max, "shown as bytes", pretty=pretty)


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a fixed size, in network byte order."""

    name: str
    layout: struct.Struct
    textual: ClassVar[Textual | None] = None

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        if len(data) != self.layout.size:
            raise Undecodable(
                f"{self.name} has {self.layout.size} bytes, but there {plural(len(data), 'is', 'are')} {len(data)}"
            )
        return self.layout.unpack(data)[0]

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        try:
            return Shown(kind="number", text=str(self.document(data)), why=f"decoded as {self.name}")
        except Undecodable as wrong:
            return as_hex(data, chars_max, str(wrong), pretty=pretty, failed=True)


NUMBERS = {
    name: Number(name, struct.Struct(layout))
    for name, layout in (("int32", ">i"), ("int64", ">q"), ("float32", ">f"), ("float64", ">d"))
}
