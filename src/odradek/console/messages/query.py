"""What a user asks for, as it is in the address of the page: where to start, filter, decoders, columns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from odradek.console.decoding.choosing import AUTO, NAMES, UnknownDecoder, chosen
from odradek.console.decoding.interface import Undecodable
from odradek.console.decoding.schemas import Schemas
from odradek.console.filters import BadFilter, Examined, Matches, compiled, needles, operand, parsed, reading
from odradek.console.filters.moments import FORMS, moment_ms
from odradek.console.filters.prefilter import Needles
from odradek.console.messages.searching import Range
from odradek.console.messages.seen import Decoders

Start = Literal["newest", "oldest", "offset", "time", "live"]
STARTS: Mapping[str, str] = {
    "newest": "Newest",
    "oldest": "Oldest",
    "offset": "Offset",
    "time": "Time",
    "live": "Live",
}
LIMITS = (20, 50, 100, 200, 500)
LIMIT = 50
COLUMNS_MAX = 10
PARTITIONS_CHARS_MAX = 1_000
SCHEMA_CHARS_MAX = 20_000  # browsers and servers limit addresses
OFFSET_MAX = 2**63 - 1


class BadQuery(ValueError):
    """A field of the toolbar that cannot be used. `column` is that of an error in a filter."""

    def __init__(self, name: str, why: str, column: int | None = None) -> None:
        super().__init__(f"{name}: {why}")
        self.name, self.why, self.column = name, why, column


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    start: Start = "newest"
    at: str = ""  # an offset or a time
    partitions: tuple[int, ...] = ()  # none: all
    limit: int = LIMIT
    filter: str = ""
    key: str = AUTO
    value: str = AUTO
    key_schema: str = ""
    value_schema: str = ""
    columns: tuple[str, ...] = ()
    uncommitted: bool = False
    # Where an earlier search stopped: the ranges that are left.
    left: tuple[Range, ...] = field(default=())

    @property
    def newest_first(self) -> bool:
        return self.start == "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A query that was checked: it can be run."""

    query: MessageQuery
    decoders: Decoders
    columns: tuple[Callable[[Examined], Any], ...]
    matches: Matches | None
    needles: Needles | None
    offset: int | None  # of the start "offset"; negative: this many before the end
    time_ms: int | None  # of the start "time"


def query_of(params: Mapping[str, str]) -> MessageQuery:
    """The query of an address. Raises BadQuery."""
    start = params.get("from", "newest")
    if start not in STARTS:
        raise BadQuery("from", f"{start!r} is none of {', '.join(STARTS)}")
    return MessageQuery(
        start=start,  # type: ignore[arg-type]  # it is one of them
        at=params.get("at", "").strip(),
        partitions=_partitions(params.get("partition", "")),
        limit=_limit(params.get("limit", "")),
        filter=params.get("filter", "").strip(),
        key=params.get("key", AUTO) or AUTO,
        value=params.get("value", AUTO) or AUTO,
        key_schema=_schema("key_schema", params),
        value_schema=_schema("value_schema", params),
        columns=_columns(params.get("columns", "")),
        uncommitted=params.get("uncommitted") == "yes",
        left=_left(params.get("left", "")),
    )


def prepared(query: MessageQuery, schemas: Schemas | None, now_ms: int | None = None) -> Prepared:
    """Raises BadQuery."""
    now = int(time.time() * 1000) if now_ms is None else now_ms
    decoders = Decoders(
        _decoder("key", query.key, query.key_schema, schemas),
        _decoder("value", query.value, query.value_schema, schemas),
    )
    node = None
    if query.filter:
        try:
            node = parsed(query.filter, now)
        except BadFilter as wrong:
            raise BadQuery("filter", wrong.what, wrong.column) from None
    return Prepared(
        query=query,
        decoders=decoders,
        columns=tuple(map(_column, query.columns)),
        matches=None if node is None else compiled(node),
        needles=None if node is None else needles(node, decoders.textual),
        offset=_offset(query.at) if query.start == "offset" else None,
        time_ms=_time(query.at, now) if query.start == "time" else None,
    )


def _decoder(part: str, name: str, schema: str, schemas: Schemas | None) -> Any:  # noqa: ANN401 (a Decoder)
    try:
        return chosen(name, schemas, schema if name == "avro" else "")
    except UnknownDecoder:
        raise BadQuery(part, f"{name!r} is none of {', '.join(NAMES)}") from None
    except Undecodable as wrong:
        raise BadQuery(f"{part}_schema", str(wrong)) from None


def _column(text: str) -> Callable[[Examined], Any]:
    try:
        return reading(operand(text))
    except BadFilter as wrong:
        raise BadQuery("columns", f"{text}: {wrong.what}", wrong.column) from None


def _partitions(text: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    if len(text) > PARTITIONS_CHARS_MAX or not re.fullmatch(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*", text):
        raise BadQuery("partition", f"{text[:40]!r}: expected numbers, such as 0 or 0,1")
    return tuple(sorted({int(part) for part in text.split(",")}))


def _limit(text: str) -> int:
    if not text:
        return LIMIT
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= LIMITS[-1]:
        raise BadQuery("limit", f"{text[:20]!r}: expected a number from 1 to {LIMITS[-1]}")
    return int(text)


def _schema(name: str, params: Mapping[str, str]) -> str:
    text = params.get(name, "").strip()
    if len(text) > SCHEMA_CHARS_MAX:
        raise BadQuery(name, f"a schema in an address has at most {SCHEMA_CHARS_MAX} characters")
    return text


def _columns(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(found) > COLUMNS_MAX:
        raise BadQuery("columns", f"at most {COLUMNS_MAX} columns")
    return found


def _offset(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,19}", text) or abs(int(text)) > OFFSET_MAX:
        raise BadQuery("at", f"{text[:40]!r}: expected an offset such as 42, or -100 for the last hundred")
    return int(text)


def _time(text: str, now_ms: int) -> int:
    try:
        return moment_ms(text, now_ms)
    except (ValueError, OverflowError):
        raise BadQuery("at", f"{text[:40]!r}: expected {FORMS}") from None


def _left(text: str) -> tuple[Range, ...]:
    """`0:10-20,1:0-5`: the ranges that an earlier search has left."""
    if not text:
        return ()
    if not re.fullmatch(r"\d{1,6}:\d{1,19}-\d{1,19}(,\d{1,6}:\d{1,19}-\d{1,19})*", text):
        raise BadQuery("left", "expected ranges, such as 0:10-20")
    found = []
    for part in text.split(","):
        partition, _, offsets = part.partition(":")
        start, _, end = offsets.partition("-")
        found.append(Range(int(partition), min(int(start), OFFSET_MAX), min(int(end), OFFSET_MAX)))
    return tuple(found)


def left_text(left: Mapping[int, Range]) -> str:
    return ",".join(f"{each.partition}:{each.start}-{each.end}" for each in left.values())
