"""The newest dead letters of a connector, by the reason why each record failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.console.connectors.seen import CAUSE_CHARS_MAX
from odradek.console.decoding.choosing import AUTO, chosen
from odradek.console.messages.query import MessageQuery, prepared
from odradek.console.messages.searching import Search, Wanted
from odradek.console.messages.seen import Decoders, Seen
from odradek.console.messages.source import Source

LETTERS_MAX = 500
HEADER = "__connect.errors."
REDRIVEN = "odradek.redriven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    stage: str
    exception: str
    message: str
    topic: str  # from which the records were read; empty for those of a source
    count: int
    last_ms: int
    partition: int  # of the newest letter
    offset: int

    @property
    def filter(self) -> str:
        """Finds these letters on the page of messages."""
        wanted = {"stage": self.stage, "exception.class.name": self.exception, "topic": self.topic}
        return " and ".join(
            f'header["{HEADER}{name}"] == "{value}"' for name, value in wanted.items() if value and _is_plain(value)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    reasons: list[Reason]
    count: int  # of the letters that were read
    is_all: bool  # no older letters were left out
    has_context: bool  # the connector writes headers with the reasons


def newest_letters(source: Source, connector: str, check: Callable[[], None]) -> Letters:
    """Raises CannotRead and NoAnswer."""
    text = chosen(AUTO, None)
    ranges = source.ranges(prepared(MessageQuery(limit=LETTERS_MAX), None))
    with source.reader(check) as reader:
        wanted: Wanted[Seen] = Wanted(
            limit=LETTERS_MAX, newest_first=True, decoders=Decoders(text, text), show=lambda seen: seen
        )
        search = Search(reader, ranges, wanted, check=check)
        seen = [match.shown for found in search.rounds() for match in found]
    found: dict[tuple[str, str, str, str], Reason] = {}
    count, has_context = 0, False
    for each in seen:
        context = _context(each)
        if context is None or context.get("connector.name", connector) != connector:
            continue
        count += 1
        has_context |= bool(context)
        key = tuple(context.get(name, "") for name in ("stage", "exception.class.name", "exception.message", "topic"))
        stage, exception, message, topic = key
        known = found.get((stage, exception, message, topic))
        found[stage, exception, message, topic] = Reason(
            stage=stage,
            exception=exception,
            message=message,
            topic=topic,
            count=1 + (known.count if known else 0),
            last_ms=known.last_ms if known else each.timestamp,
            partition=known.partition if known else each.partition,
            offset=known.offset if known else each.offset,
        )
    reasons = sorted(found.values(), key=lambda reason: -reason.count)
    return Letters(reasons=reasons, count=count, is_all=not search.left, has_context=has_context)


def _context(seen: Seen) -> Mapping[str, str] | None:
    """The headers that Connect has written; None for the mark of a letter that was written again."""
    if seen.key is None and seen.value is None and [name for name, _ in seen.headers] == [REDRIVEN]:
        return None
    return {
        name.removeprefix(HEADER): (value or b"")[: 4 * CAUSE_CHARS_MAX].decode(errors="replace")[:CAUSE_CHARS_MAX]
        for name, value in seen.headers
        if name.startswith(HEADER)
    }


def _is_plain(text: str) -> bool:
    return text.isprintable() and '"' not in text and "\\" not in text
