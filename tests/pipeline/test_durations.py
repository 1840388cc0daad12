from __future__ import annotations

from datetime import timedelta

import pytest

from odradek.pipeline.durations import duration, interval, spoken


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 seconds", 5),
        ("1 second", 1),
        ("10m", 600),
        ("1 hour 30 minutes", 5400),
        ("500 ms", 0.5),
        ("1.5 s", 1.5),
        (" 2 Days ", 172_800),
        (timedelta(minutes=3), 180),
        ("0 seconds", 0),
    ],
)
def test_common_spellings_of_durations_are_parsed(text, seconds):
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "five seconds", "3 months", "5 seconds ago", "-5 seconds"])
def test_other_text_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="'5 seconds'"):
        duration(text)


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="negative"):
        duration(timedelta(seconds=-1))


def test_durations_are_formatted_for_spark_and_for_people():
    assert interval(timedelta(milliseconds=1500)) == "1500000 microseconds"
    assert [spoken(duration(text)) for text in ("180 s", "90 s", "1 hour", "1500 ms", "7 us", "0 s", "14 days")] == [
        "3 minutes",
        "90 seconds",
        "1 hour",
        "1500 milliseconds",
        "7 microseconds",
        "0 seconds",
        "2 weeks",
    ]
