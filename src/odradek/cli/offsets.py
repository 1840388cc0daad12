"""Where to begin and stop reading, in the syntax of kcat and rpk.

beginning, start, earliest      the first record
end, latest                     after the last one
42                              that offset
-100                            the last hundred of each partition
+10                             after the first ten
@1700000000000 @2026-11-01T10:00 @-15m     the first record at or after that time
BEGIN:UNTIL                     any two of these; either may be omitted; UNTIL is exclusive
s@MS e@MS                       kcat's syntax for @MS: and :@MS
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

BEGINNING = {"beginning", "start", "earliest"}
END = {"end", "latest"}
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
OFFSET_END = -1

_TIME = (
    r"@(?:-\d+(?:ms|s|m|h|d)"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?"
    r"|\d+)"
)
_PLACE = rf"(?:beginning|start|earliest|end|latest|[+-]?\d+|{_TIME})"


@dataclass(frozen=True, slots=True)
class Place:
    """An offset, a time, or a distance from the beginning or the end."""

    kind: str  # beginning, end, offset, time
    number: int = 0

    def resolve(self, consumer: Consumer, tp: TopicPartition, timeout_s: float) -> int:
        """The offset in this partition now. Only a plain offset may lie outside of the log."""
        from confluent_kafka import TopicPartition

        first, end = consumer.get_watermark_offsets(tp, timeout=timeout_s)
        if self.kind == "beginning":
            return int(min(first + self.number, end))
        if self.kind == "end":
            return int(max(end + self.number, first))
        if self.kind == "offset":
            return self.number
        [found] = consumer.offsets_for_times([TopicPartition(tp.topic, tp.partition, self.number)], timeout=timeout_s)
        return int(end if found.offset == OFFSET_END else found.offset)


@dataclass(frozen=True, slots=True)
class Span:
    begin: Place
    until: Place | None = None


def parse_span(text: str, now: datetime, option: str = "--offset") -> Span:
    kcats = re.fullmatch(rf"([se])({_TIME})", text)
    if kcats:
        place = _place(kcats[2], now, option)
        return Span(place) if kcats[1] == "s" else Span(Place("beginning"), place)
    said = re.fullmatch(rf"({_PLACE})?(:)?({_PLACE})?", text)
    if said is None or not text or (said[1] and said[3] and not said[2]):
        raise click.BadParameter(
            f"{text!r}: use beginning, end, N, +N, -N, @TIME, or BEGIN:UNTIL of these; a TIME is milliseconds, "
            "2026-11-01T10:00 (UTC) or -15m",
            param_hint=option,
        )
    begin, colon, until = said.groups()
    if colon and not begin and not until:
        until = "end"
    span = Span(_place(begin or "beginning", now, option), _place(until, now, option) if until else None)
    if span.until is not None and span.begin.kind == span.until.kind and span.begin.number > span.until.number:
        raise click.BadParameter(f"{text!r} ends before it begins", param_hint=option)
    return span


def parse_place(text: str, now: datetime, option: str) -> Place:
    """Parses one place and refuses a range."""
    span = parse_span(text, now, option)
    if span.until is not None:
        raise click.BadParameter(f"{text!r} is a range", param_hint=option)
    return span.begin


def _place(text: str, now: datetime, option: str) -> Place:
    if text in BEGINNING:
        return Place("beginning")
    if text in END:
        return Place("end")
    if text.startswith("@"):
        return Place("time", _milliseconds(text[1:], now, option))
    if text[0] in "+-":
        return Place("beginning" if text[0] == "+" else "end", int(text))
    return Place("offset", int(text))


def _milliseconds(text: str, now: datetime, option: str) -> int:
    if text.isdigit():
        return int(text)
    if text.startswith("-"):
        number = text[1:].rstrip("mshd")
        ago = timedelta(seconds=int(number) * UNITS[text[1 + len(number) :]])
        return int((now - ago).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as broken:
        raise click.BadParameter(f"{text!r} is not a valid time: {broken}", param_hint=option) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
