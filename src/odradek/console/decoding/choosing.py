"""Decoders by name, and detection: the first that fits of a schema's frame, JSON, text, and hex."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from odradek.console.decoding.avro import AvroSchema
from odradek.console.decoding.interface import Decoder, Shown, Textual, Undecodable
from odradek.console.decoding.plain import NUMBERS, Hex, Json, Text, as_hex, as_json_text, cut, parsed_json
from odradek.console.decoding.protobuf import without_schema
from odradek.console.decoding.schemas import FRAME, Found, Schemas, framed_id

AUTO = "auto"
NAMES: Mapping[str, str] = {
    AUTO: "Detect",
    "json": "JSON",
    "text": "Text",
    "avro": "Avro",
    "protobuf": "Protobuf",
    "hex": "Hex",
    **{name: name for name in NUMBERS},
}
# Larger payloads are not parsed to detect JSON.
DETECTED_BYTES_MAX = 4 << 20
_CONTROLS = dict.fromkeys([*range(9), *range(14, 32), 127])
NO_REGISTRY = "the console was started without --schema-registry"


class UnknownDecoder(ValueError):
    """No decoder has this name."""


def chosen(name: str, schemas: Schemas | None, schema_text: str = "") -> Decoder:
    """`schema_text` is an Avro schema, for bodies without a registry's frame. Raises UnknownDecoder, Undecodable."""
    if name in NUMBERS:
        return NUMBERS[name]
    match name:
        case "auto" | "":
            return Detecting(schemas)
        case "json":
            return Json()
        case "text":
            return Text()
        case "hex":
            return Hex()
        case "avro":
            return Avro(schemas, AvroSchema(schema_text) if schema_text else None)
        case "protobuf":
            return Protobuf(schemas)
    raise UnknownDecoder(f"no decoder is called {name!r}; there are {', '.join(NAMES)}")


def _as_document(document: object, found: Found, chars_max: int, why: str, *, pretty: bool) -> Shown:
    try:
        text, is_cut = cut(json_text(document, pretty=pretty), chars_max)
    except RecursionError:
        return Shown(kind=found.kind, text="", why="it is nested too deep to be shown", schema=found.name, failed=True)
    return Shown(kind=found.kind, text=text, why=why, schema=found.name, is_cut=is_cut)


def _shown(
    read: Callable[[bytes], tuple[Found, Any]], data: bytes, chars_max: int, kind: str, *, pretty: bool
) -> Shown:
    """The document of a decoder that a person has chosen."""
    try:
        found, document = read(data)
    except Undecodable as wrong:
        return as_hex(data, chars_max, f"not decoded as {kind}: {wrong}", pretty=pretty, failed=True)
    return _as_document(document, found, chars_max, f"decoded as {kind}", pretty=pretty)


def json_text(document: object, *, pretty: bool) -> str:
    if pretty:
        return json.dumps(document, ensure_ascii=False, indent=2)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _framed(data: bytes, schemas: Schemas) -> tuple[Found, Any] | None:
    """The schema and the document of a payload in a registry's framing; None without a frame. Raises Undecodable."""
    number = framed_id(data)
    if number is None:
        return None
    found = schemas.of(number)
    if found.body is None:
        raise Undecodable(f"{found.name}: {found.problem}")
    return found, found.body.document(data[FRAME.size :])


@dataclass(frozen=True, slots=True)
class Detecting:
    schemas: Schemas | None = None

    @property
    def textual(self) -> Textual | None:
        return "text" if self.schemas is None else None

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        if self.schemas is not None and data[:1] == b"\0":
            framed = _framed(data, self.schemas)
            if framed is not None:
                return framed[1]
        if _may_be_json(data):
            try:
                return parsed_json(data)
            except Undecodable:
                pass
        try:
            return data.decode()
        except UnicodeDecodeError as binary:
            raise Undecodable(f"neither JSON nor text: {binary}") from None

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        if not data:
            return Shown(kind="empty", text="", why="it has no bytes")
        why_not = ""
        number = framed_id(data)
        if number is not None:
            if self.schemas is None:
                why_not = f"{_binary(data)}; it begins like schema {number} of a registry, but {NO_REGISTRY}"
            else:
                try:
                    found, document = _framed(data, self.schemas) or (None, None)
                except Undecodable as wrong:
                    return as_hex(data, chars_max, str(wrong), pretty=pretty)
                if found is not None:
                    why = f"begins with a zero byte and the id {number}, which the registry knows"
                    return _as_document(document, found, chars_max, why, pretty=pretty)
        if _may_be_json(data):
            try:
                parsed_json(data)
                text, is_cut = cut(as_json_text(data, pretty=pretty), chars_max)
            except Undecodable:
                pass
            else:
                return Shown(kind="json", text=text, why="it is a JSON document", is_cut=is_cut)
        return self._text_or_hex(data, chars_max, why_not, pretty=pretty)

    def _text_or_hex(self, data: bytes, chars_max: int, why_not: str, *, pretty: bool) -> Shown:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return as_hex(data, chars_max, why_not or _binary(data), pretty=pretty)
        if text.translate(_CONTROLS) != text:
            return as_hex(data, chars_max, why_not or _binary(data), pretty=pretty)
        text, is_cut = cut(text, chars_max)
        return Shown(kind="text", text=text, why="it is UTF-8 without control characters", is_cut=is_cut)


def _may_be_json(data: bytes) -> bool:
    """Whether it is worth parsing. A JSON string is text in quotes, without spaces around them."""
    if len(data) > DETECTED_BYTES_MAX:
        return False
    if data[:1] == b'"':
        return data[-1:] == b'"' and len(data) > 1
    return data[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]")


def _binary(data: bytes) -> str:
    fits = [name for name, number in NUMBERS.items() if number.layout.size == len(data)]
    hint = f"; {len(data)} bytes may be {' or '.join(fits)}" if fits else ""
    return f"neither JSON nor UTF-8 text{hint}"


@dataclass(frozen=True, slots=True)
class Avro:
    schemas: Schemas | None
    given: AvroSchema | None
    textual: ClassVar[Textual | None] = None

    def _read(self, data: bytes) -> tuple[Found, Any]:
        if self.given is not None:
            return Found("avro", self.given.name, self.given), self.given.document(data)
        if self.schemas is None:
            raise Undecodable(f"Avro needs a schema: give one below the decoder, or a registry ({NO_REGISTRY})")
        framed = _framed(data, self.schemas)
        if framed is None:
            raise Undecodable("it does not begin with a zero byte and the id of a schema")
        return framed

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return self._read(data)[1]

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        return _shown(self._read, data, chars_max, "Avro", pretty=pretty)


@dataclass(frozen=True, slots=True)
class Protobuf:
    """With a registry's frame, the schema's names; otherwise the numbers of the fields."""

    schemas: Schemas | None
    textual: ClassVar[Textual | None] = None

    def _read(self, data: bytes) -> tuple[Found, Any]:
        framed = None if self.schemas is None else _framed(data, self.schemas)
        if framed is not None:
            return framed
        return Found("protobuf", "without a schema: fields by number", None), without_schema(data)

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        return self._read(data)[1]

    def shown(self, data: bytes, chars_max: int, *, pretty: bool) -> Shown:
        return _shown(self._read, data, chars_max, "Protobuf", pretty=pretty)
