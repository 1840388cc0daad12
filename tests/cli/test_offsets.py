"""The grammar of offsets, as kcat and rpk write them."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

from odradek.cli.offsets import Place, Span, parse_span

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
BEGINNING, END = Place("beginning"), Place("end")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("beginning", Span(BEGINNING)),
        ("start", Span(BEGINNING)),
        ("latest", Span(END)),
        ("42", Span(Place("offset", 42))),
        ("-100", Span(Place("end", -100))),
        ("+10", Span(Place("beginning", 10))),
        ("@1700000000000", Span(Place("time", 1_700_000_000_000))),
        ("@2026-11-15T11:00", Span(Place("time", NOW_MS - 3_600_000))),
        ("@2026-11-15T12:00:00+01:00", Span(Place("time", NOW_MS - 3_600_000))),
        ("@-15m", Span(Place("time", NOW_MS - 900_000))),
        ("10:20", Span(Place("offset", 10), Place("offset", 20))),
        (":end", Span(BEGINNING, END)),
        (":", Span(BEGINNING, END)),
        ("5:", Span(Place("offset", 5))),
        ("@-1h:end", Span(Place("time", NOW_MS - 3_600_000), END)),
        (
            "@2026-11-15T10:00:@2026-11-15T11:00",
            Span(Place("time", NOW_MS - 7_200_000), Place("time", NOW_MS - 3_600_000)),
        ),
        ("s@1700000000000", Span(Place("time", 1_700_000_000_000))),
        ("e@1700000000000", Span(BEGINNING, Place("time", 1_700_000_000_000))),
    ],
)
def test_grammar(text: str, span: Span) -> None:
    assert parse_span(text, NOW) == span


@pytest.mark.parametrize("text", ["middle", "@soon", "1.5", "@-5y", "3:middle"])
def test_invalid_offsets_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="use"):
        parse_span(text, NOW)


@pytest.mark.parametrize("text", ["5:2", "-3:-5", "+4:+1", "@-1h:@-2h"])
def test_a_range_that_ends_before_it_begins_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="ends before it begins"):
        parse_span(text, NOW)
