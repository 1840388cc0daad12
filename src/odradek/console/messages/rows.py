"""A record as one row of the table: short texts, and what the page needs to show the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from odradek.console.decoding.choosing import json_text
from odradek.console.decoding.interface import Decoder
from odradek.console.filters import UNREADABLE, Examined
from odradek.console.messages.seen import Decoders, Seen

KEY_CHARS_MAX, VALUE_CHARS_MAX, CELL_CHARS_MAX = 120, 400, 200
HEADERS_MAX = 20
Column = Callable[[Examined], Any]


def row_of(seen: Seen, decoders: Decoders, columns: Sequence[Column] = ()) -> dict[str, Any]:
    """Only JSON values: the browser shows them as text."""
    record = seen.record
    row: dict[str, Any] = {
        "p": seen.partition,
        "o": record.offset,
        "t": record.timestamp,
        "size": seen.size,
        "key": _cell(decoders.key, record.key, KEY_CHARS_MAX),
        "value": _cell(decoders.value, record.value, VALUE_CHARS_MAX),
        "headers": [name[:CELL_CHARS_MAX] for name, _ in record.headers[:HEADERS_MAX]],
    }
    if columns:
        row["columns"] = [_text(column(seen)) for column in columns]
    return row


def _cell(decoder: Decoder, data: bytes | None, chars_max: int) -> dict[str, Any]:
    if data is None:
        return {"kind": "null", "text": ""}
    shown = decoder.shown(data, chars_max, pretty=False)
    cell: dict[str, Any] = {"kind": shown.kind, "text": shown.text}
    if shown.is_cut:
        cell["cut"] = True
    if shown.failed:
        cell["why"] = shown.why
    return cell


def _text(value: object) -> str:
    if value is None or value is UNREADABLE:
        return ""
    try:
        return (value if isinstance(value, str) else json_text(value, pretty=False))[:CELL_CHARS_MAX]
    except RecursionError:
        return "(nested too deep to be shown)"
