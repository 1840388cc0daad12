"""One message with everything that a page shows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.console.collecting.figures import EARLIEST, LATEST
from odradek.console.decoding.choosing import Detecting
from odradek.console.decoding.interface import Decoder, Shown
from odradek.console.decoding.plain import as_hex
from odradek.console.messages.query import Prepared
from odradek.console.messages.reading import CannotRead
from odradek.console.messages.searching import Range, Search, Wanted
from odradek.console.messages.seen import Seen
from odradek.console.messages.source import Source

SHOWN_CHARS_MAX = 256 * 1024
HEADER_CHARS_MAX = 10_000
HEADERS_MAX = 200
# Headers that name the topic from which a dead letter came: of Kafka Connect, Spring and Odradek.
ORIGINS = ("__connect.errors.topic", "__streams.errors.topic", "kafka_dlt-original-topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The key or the value."""

    name: str
    size: int | None  # None: null
    shown: Shown
    raw: str  # as text, where it is shown decoded
    hex: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMessage:
    partition: int
    offset: int
    timestamp: int
    key: Part
    value: Part
    headers: list[tuple[str, str | None]]
    headers_size: int
    origin: str | None  # the topic of a dead letter

    @property
    def size(self) -> int:
        return (self.key.size or 0) + (self.value.size or 0) + self.headers_size


def found(source: Source, prepared: Prepared, partition: int, offset: int, check: Callable[[], None]) -> Seen:
    """The record at an offset. Raises CannotRead if there is none."""
    place = source.chosen((partition,))
    first, end = source.offsets(place, EARLIEST).get(partition, 0), source.offsets(place, LATEST).get(partition, offset)
    if not first <= offset < end:
        held = f"it has offsets {first} to {end - 1}" if first < end else f"it is empty, its next offset is {end}"
        raise CannotRead(f"{source.name}-{partition} has no offset {offset}: {held}")
    with source.reader(check, uncommitted=True) as reader:
        wanted: Wanted[Seen] = Wanted(limit=1, newest_first=False, decoders=prepared.decoders, show=lambda seen: seen)
        search = Search(reader, [Range(partition, offset, offset + 1)], wanted, check=check)
        for matches in search.rounds():
            for match in matches:
                return match.shown
    raise CannotRead(
        f"{source.name}-{partition} has no record at offset {offset}: "
        "it was compacted away, or is a marker of a transaction"
    )


def message_of(seen: Seen, prepared: Prepared) -> OneMessage:
    record = seen.record
    headers = [(name, None if value is None else _header(value)) for name, value in record.headers[:HEADERS_MAX]]
    return OneMessage(
        partition=seen.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=_part("key", prepared.decoders.key, record.key),
        value=_part("value", prepared.decoders.value, record.value),
        headers=headers,
        headers_size=sum(len(name.encode()) + len(value or b"") for name, value in record.headers),
        origin=next((value for name, value in headers if name in ORIGINS and value), None),
    )


def _part(name: str, decoder: Decoder, data: bytes | None) -> Part:
    if data is None:
        null = Shown(kind="null", text="", why="there is none" if name == "key" else "a tombstone: it has no value")
        return Part(name=name, size=None, shown=null, raw="", hex="")
    return Part(
        name=name,
        size=len(data),
        shown=decoder.shown(data, SHOWN_CHARS_MAX, pretty=True),
        raw=data[:SHOWN_CHARS_MAX].decode(errors="replace"),
        hex=as_hex(data, SHOWN_CHARS_MAX, "", pretty=True).text,
    )


def _header(value: bytes) -> str:
    return Detecting().shown(value, HEADER_CHARS_MAX, pretty=False).text


def as_json(message: OneMessage, topic: str) -> dict[str, Any]:
    """For programs: what the page shows."""
    return {
        "topic": topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": _part_json(message.key),
        "value": _part_json(message.value),
        "headers": [[name, value] for name, value in message.headers],
    }


def _part_json(part: Part) -> dict[str, Any] | None:
    if part.size is None:
        return None
    shown = part.shown
    told: dict[str, Any] = {"kind": shown.kind, "text": shown.text, "bytes": part.size, "why": shown.why}
    return told | ({"schema": shown.schema} if shown.schema else {}) | ({"cut": True} if shown.is_cut else {})
