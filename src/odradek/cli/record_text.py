"""Formats records as text: format strings of rpk and kcat, and JSON lines that can be produced again.

%t topic  %p partition  %o offset  %k key  %v or %s value  %T timestamp in ms  %h headers  %K %S lengths  %% a percent
%k{hex} %v{base64} %v{json}       an encoding of the bytes
%d{%Y-%m-%d %H:%M:%S}             the timestamp, by strftime, in UTC
%h{%k=%v }                        once for each header
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from confluent_kafka import Message

Formatter = Callable[["Message"], bytes]
Piece = Callable[["Message"], bytes]

_FIELD = re.compile(r"%(?:(?P<name>[tpokvsTdhKS])(?:\{(?P<how>[^}]*)\})?|(?P<percent>%)|(?P<unknown>.?))", re.DOTALL)
_ESCAPES = "abfnrtv\\'\"01234567xuUN"
_FIELDS = "%t %p %o %k %v %s %T %d %h %K %S, and %% for a percent sign"
_SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "json": lambda data: json.dumps(data.decode(errors="surrogateescape")).encode(),
}
_PLAIN: dict[str, Piece] = {
    "t": lambda message: (message.topic() or "").encode(),
    "p": lambda message: str(message.partition()).encode(),
    "o": lambda message: str(message.offset()).encode(),
    "T": lambda message: str(message.timestamp()[1]).encode(),
    "K": lambda message: str(len(message.key() or b"")).encode(),
    "S": lambda message: str(len(message.value() or b"")).encode(),
}


def formatter(form: str) -> Formatter:
    """`json` and `jsonl` mean a JSON document per line; anything else is a format string."""
    if form in ("json", "jsonl"):
        return json_line
    if re.fullmatch(r"\w+", form):
        raise _refused(f"{form!r} is not a format: use json, jsonl or a format string such as '%k %v\\n'")
    pieces = _pieces(_unescaped(form))
    return lambda message: b"".join(piece(message) for piece in pieces)


def _refused(why: str) -> click.BadParameter:
    return click.BadParameter(why, param_hint="--format")


def _unescaped(form: str) -> str:
    for escape in re.findall(r"\\.", form, re.DOTALL):
        if escape[1] not in _ESCAPES:
            raise _refused(f"{escape}: unknown escape; use \\n, \\t, \\xHH, or \\\\ for a backslash")
    try:
        return form.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError as broken:
        raise _refused(f"{form!r}: {broken.reason}") from None


def _pieces(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    position = 0
    for match in _FIELD.finditer(text):
        if match["unknown"] is not None:
            raise _refused(f"%{match['unknown']}: unknown field; use {_FIELDS}")
        if match["how"] is None and text.startswith("{", match.end()):
            raise _refused(f"{text[match.start() :]}: a brace is not closed")
        pieces.append(_literal(text[position : match.start()]))
        pieces.append(_literal("%") if match["percent"] else _field(match["name"], match["how"]))
        position = match.end()
    pieces.append(_literal(text[position:]))
    return pieces


def _literal(text: str) -> Piece:
    data = text.encode()
    return lambda _: data


def _field(name: str, how: str | None) -> Piece:
    if name == "d":
        form = how or "%Y-%m-%dT%H:%M:%S"
        return lambda message: _moment(message.timestamp()[1], form).encode()
    if name == "h":
        return _headers(how)
    if name in _PLAIN:
        if how is not None:
            raise _refused(f"%{name}{{{how}}}: %{name} takes no encoding")
        return _PLAIN[name]
    if (how or "") not in _SPELLINGS:
        raise _refused(f"%{name}{{{how}}}: unknown encoding; use hex, base64 or json")
    spelled = _SPELLINGS[how or ""]
    if name == "k":
        return lambda message: spelled(message.key() or b"")
    return lambda message: spelled(message.value() or b"")


def _moment(ms: int, form: str) -> str:
    """The number itself if it is no time: some producers write microseconds."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return str(ms)


def _headers(how: str | None) -> Piece:
    if how is not None and (unknown := re.search(r"%[^kv]|%$", how)):
        raise _refused(f"{unknown[0]} is not a field of a header; use %k or %v")
    if how is None:
        return lambda message: b",".join(
            name.encode() + b"=" + (value or b"") for name, value in message.headers() or []
        )

    def each(message: Message) -> bytes:
        return b"".join(
            how.encode().replace(b"%k", name.encode()).replace(b"%v", value or b"")
            for name, value in message.headers() or []
        )

    return each


def json_line(message: Message) -> bytes:
    document: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": text_of(message.key()),
        "value": text_of(message.value()),
        "headers": [[name, text_of(value)] for name, value in message.headers() or []],
    }
    return json.dumps(document).encode() + b"\n"


def text_of(data: bytes | None) -> str | None:
    """`bytes_of` restores the same bytes, even if they are not UTF-8."""
    return None if data is None else data.decode(errors="surrogateescape")


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")
