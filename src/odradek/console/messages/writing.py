"""A record as it is typed into the form: key and value in an encoding, headers as lines."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.console.frame import Refused
from odradek.protocol.records import Record

ENCODINGS: Mapping[str, str] = {
    "text": "Text",
    "json": "JSON (checked)",
    "hex": "Hex",
    "base64": "Base64",
    "null": "Null",
}
HEADERS_MAX = 500
NOTHING_WRITTEN = "Nothing is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | str | None]]
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    key: str = ""
    key_encoding: str = "text"
    value: str = ""
    value_encoding: str = "text"
    headers: str = ""
    partition: str = ""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Draft:
        def newlines(text: str) -> str:
            return text.replace("\r\n", "\n")  # browsers send these from text areas

        return cls(
            key=newlines(fields.get("key", "")),
            key_encoding=fields.get("key_encoding", "text"),
            value=newlines(fields.get("value", "")),
            value_encoding=fields.get("value_encoding", "text"),
            headers=newlines(fields.get("headers", "")),
            partition=fields.get("partition", "").strip(),
        )

    def encoded(self, partitions: int) -> Encoded:
        """The bytes. Raises Refused."""
        # An empty field for the key means no key: partitioning by an empty key is hardly ever wanted.
        encoding = "null" if self.key_encoding == "text" and not self.key else self.key_encoding
        return Encoded(
            key=_bytes("key", self.key, encoding),
            value=_bytes("value", self.value, self.value_encoding),
            headers=_headers(self.headers),
            partition=_partition(self.partition, partitions),
        )


def _bytes(what: str, text: str, encoding: str) -> bytes | None:
    try:
        match encoding:
            case "null":
                return None
            case "text":
                return text.encode()
            case "json":
                json.loads(text)
                return text.encode()
            case "hex":
                return bytes.fromhex(re.sub(r"\s", "", text))
            case "base64":
                return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except (ValueError, binascii.Error, RecursionError) as wrong:
        raise Refused(NOTHING_WRITTEN, f"the {what} is not {ENCODINGS[encoding].partition(' ')[0]}: {wrong}") from None
    raise Refused(NOTHING_WRITTEN, f"the {what} has no known encoding, which are {', '.join(ENCODINGS)}")


def _headers(text: str) -> list[tuple[str, bytes | str | None]]:
    """Lines of `name: value`. A value that begins with 0x is hex; a name alone has a null value.

    A name in double quotes is a JSON string: it may have colons, outer spaces and line breaks.
    """
    found: list[tuple[str, bytes | str | None]] = []
    for line in filter(None, text.split("\n")):
        name, colon, value = _quoted(line) if line.startswith('"') else _plain(line)
        value = value.removeprefix(" ")
        if not colon:
            found.append((name, None))
        elif re.fullmatch(r"0x([0-9a-fA-F]{2})*", value):
            found.append((name, bytes.fromhex(value[2:])))
        else:
            found.append((name, value))
    if len(found) > HEADERS_MAX:
        raise Refused(NOTHING_WRITTEN, f"at most {HEADERS_MAX} headers")
    return found


def _plain(line: str) -> tuple[str, str, str]:
    name, colon, value = line.partition(":")
    if not name.strip():
        raise Refused(NOTHING_WRITTEN, f"the header {line[:60]!r} has no name; write name: value")
    return name.strip(), colon, value


def _quoted(line: str) -> tuple[str, str, str]:
    try:
        name, end = json.JSONDecoder().raw_decode(line)
        name.encode()
    except ValueError:
        raise Refused(NOTHING_WRITTEN, f"the header {line[:60]!r} has a quoted name that is no JSON string") from None
    rest = line[end:].lstrip()
    if rest and not rest.startswith(":"):
        raise Refused(NOTHING_WRITTEN, f'the header {line[:60]!r} has no colon after its name; write "name": value')
    return name, rest[:1], rest[1:]


def _partition(text: str, partitions: int) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or int(text[:9]) >= partitions:
        raise Refused(NOTHING_WRITTEN, f"there is no partition {text[:20]}, only 0 to {partitions - 1}")
    return int(text)


def draft_of(record: Record) -> Draft:
    """A draft that writes the same record again, byte for byte."""
    key, key_encoding = _typed(record.key)
    value, value_encoding = _typed(record.value)
    return Draft(
        key=key,
        key_encoding=key_encoding,
        value=value,
        value_encoding=value_encoding,
        headers=headers_text(record.headers),
    )


def _typed(data: bytes | None) -> tuple[str, str]:
    if data is None:
        return "", "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(" ", 32), "hex"
    # A form cannot send a carriage return or a zero byte unchanged.
    return (data.hex(" ", 32), "hex") if re.search(r"[\r\0]", text) or not text else (text, "text")


def headers_text(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return "\n".join(_header_text(name, value) for name, value in headers)


def _header_text(name: str, value: bytes | None) -> str:
    if not name or not name.isprintable() or name != name.strip() or ":" in name or name.startswith('"'):
        name = json.dumps(name)
    if value is None:
        return name
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"{name}: 0x{value.hex()}"
    return f"{name}: 0x{value.hex()}" if not text.isprintable() or text.startswith("0x") else f"{name}: {text}"
