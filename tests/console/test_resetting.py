"""Where the offsets of a group would go."""

from __future__ import annotations

import pytest

from odradek.console.resetting import BadTarget, Offsets, as_field, from_field, moment_ms, moves, whole

A, B = ("orders", 0), ("orders", 1)
OFFSETS = Offsets(committed={A: 50}, starts={A: 10, B: 0}, ends={A: 100, B: 7}, elsewhere={A: 70})


def found(to: str, value: str = "") -> list[tuple[int | None, int, str]]:
    return [(each.was, each.now, each.note) for each in moves([A, B], to, value, OFFSETS)]


@pytest.mark.parametrize(
    ("to", "value", "expected"),
    [
        ("earliest", "", [(50, 10, ""), (None, 0, "")]),
        ("latest", "", [(50, 100, ""), (None, 7, "")]),
        ("offset", "60", [(50, 60, ""), (None, 7, "60 is beyond the log end")]),
        ("offset", "5", [(50, 10, "5 was deleted already"), (None, 5, "")]),
        ("shift", "-20", [(50, 30, ""), (None, 0, "-20 was deleted already")]),
        ("shift", "+1,000", [(50, 100, "1,050 is beyond the log end"), (None, 7, "1,000 is beyond the log end")]),
        ("time", "", [(50, 70, ""), (None, 7, "no record is that new")]),
        ("group", "", [(50, 70, ""), (None, 0, "the other group has not committed here")]),
    ],
)
def test_targets_stay_within_the_log(to, value, expected):
    assert found(to, value) == expected


def test_the_change_is_the_distance_from_the_committed_offset():
    assert [each.delta for each in moves([A, B], "earliest", "", OFFSETS)] == [-40, None]


@pytest.mark.parametrize("text", ["", "soon", "1.5", "1e3", "٣", "9" * 20, "1; drop"])
def test_what_is_not_a_whole_number_is_refused(text):
    with pytest.raises(BadTarget):
        whole(text)


def test_times_are_utc_unless_they_name_a_zone():
    assert moment_ms("2026-11-19T04:00") == 1_795_060_800_000
    assert moment_ms("2026-11-19T04:00+01:00") == 1_795_057_200_000
    with pytest.raises(BadTarget):
        moment_ms("yesterday")
    with pytest.raises(BadTarget, match="before 1970"):
        moment_ms("1969-12-31T23:59:59.999")


def test_an_unknown_choice_is_refused():
    with pytest.raises(BadTarget):
        found("sideways")


def test_a_form_applies_exactly_what_the_preview_showed():
    preview = moves([A, B], "latest", "", OFFSETS)
    assert from_field(as_field(preview)) == {A: 100, B: 7}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[[1]]",
        '[["a", -1, 0]]',
        '[["a", 0, -5]]',
        '[["a", 0, 9223372036854775808]]',
        "null",
        '[["a", Infinity, 0]]',
        "[" * 100_000,
    ],
)
def test_an_incomplete_form_is_refused(text):
    with pytest.raises(BadTarget):
        from_field(text)
