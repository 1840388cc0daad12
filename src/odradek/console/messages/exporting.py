"""Messages as a file: JSON lines that `odradek produce --input jsonl` writes again, or CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from odradek.console.decoding.interface import Decoder
from odradek.console.messages.query import Prepared
from odradek.console.messages.searching import KEPT_BYTES, Search, Wanted
from odradek.console.messages.seen import Decoders, Seen
from odradek.console.messages.source import Source

RECORDS_MAX = 100_000
PART_CHARS = 64 * 1024
CELL_CHARS_MAX = 32_000  # spreadsheets take 32,767
COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
# A spreadsheet would run a cell with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Write = Callable[[str, Seen], str]


def exported(
    source: Source, prepared: Prepared, form: str, check: Callable[[], None], records_max: int = RECORDS_MAX
) -> Iterator[str]:
    """The lines of the file, as they are read: at most `records_max` records, in the order of the search."""
    write: Write = _json_line if form == "jsonl" else _csv_writer(prepared.decoders)
    if form == "csv":
        yield ",".join(COLUMNS) + "\r\n"
    # Records are formatted after the merge: what a round keeps is bounded by their size as they were read.
    wanted: Wanted[Seen] = Wanted(
        limit=records_max,
        newest_first=prepared.query.newest_first,
        decoders=prepared.decoders,
        show=lambda seen: seen,
        matches=prepared.matches,
        needles=prepared.needles,
        size=_kept_bytes,
    )
    with source.reader(check, uncommitted=prepared.query.uncommitted) as reader:
        for matches in Search(reader, source.ranges(prepared), wanted, check=check).rounds():
            yield from _in_parts(write(source.name, match.shown) for match in matches)


def _in_parts(lines: Iterable[str]) -> Iterator[str]:
    """Joined, so that small lines are not sent one at a time."""
    part, chars = [], 0
    for line in lines:
        part.append(line)
        chars += len(line)
        if chars >= PART_CHARS:
            yield "".join(part)
            part, chars = [], 0
    if part:
        yield "".join(part)


def _kept_bytes(seen: Seen) -> int:
    """The memory that a record takes while it waits for its turn."""
    return KEPT_BYTES + seen.size + sum(len(name) + len(value or b"") for name, value in seen.headers)


def _json_line(topic: str, seen: Seen) -> str:
    record = seen.record
    document = {
        "topic": topic,
        "partition": seen.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    return json.dumps(document) + "\n"


def _text(data: bytes | None) -> str | None:
    """Bytes that are not UTF-8 become lone surrogates, which `odradek produce` turns back."""
    return None if data is None else data.decode(errors="surrogateescape")


def _csv_writer(decoders: Decoders) -> Write:
    def write(_topic: str, seen: Seen) -> str:
        record = seen.record
        moment = _moment(record.timestamp)
        headers = "; ".join(f"{name}={(value or b'').decode(errors='replace')}" for name, value in record.headers)
        cells = [
            str(seen.partition),
            str(record.offset),
            moment,
            _cell(decoders.key, record.key),
            _cell(decoders.value, record.value),
            harmless(headers[:CELL_CHARS_MAX]),
        ]
        line = io.StringIO()
        csv.writer(line).writerow(cells)
        return line.getvalue()

    return write


def _moment(ms: int) -> str:
    """The number itself if it is no time: some producers write microseconds."""
    if ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(ms)


def _cell(decoder: Decoder, data: bytes | None) -> str:
    return "" if data is None else harmless(decoder.shown(data, CELL_CHARS_MAX, pretty=False).text)


def harmless(text: str) -> str:
    """The text as a spreadsheet may open it: a quote in front of what it would run as a formula. Numbers stay."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


MEDIA_TYPES: Mapping[str, str] = MappingProxyType({"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"})
