"""Burrow's rules, one by one and in their order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.monitor.lag.evaluation import Commit, Status, Window, group_status, partition_status
from odradek.monitor.lag.trend import Trend, change_per_second, seconds_to_catch_up, trend

FACTS = Path(__file__).parent / "burrow_facts.jsonl"
NOW_S = 1_700_000_100
STEP_S = 10
END = 1_000


def window(offsets: list[int], lags: list[int | None], *, last_s: int = NOW_S - 5) -> list[Commit]:
    """Commits every ten seconds, the last one at `last_s`."""
    first_s = last_s - STEP_S * (len(offsets) - 1)
    return [
        Commit(offset, (first_s + STEP_S * at) * 1000, NOW_S * 1000, lag)
        for at, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


def judged(commits: list[Commit], *, ends: tuple[int, ...] = (END,), lag: int = 100, allowed: int = 0) -> Status:
    return partition_status(Window.of(commits), ends, lag, NOW_S, allowed)


def test_a_partition_without_lag_is_ok_even_if_its_consumer_has_stopped() -> None:
    gone = window([5, 5], [50, 50], last_s=NOW_S - 1_000)
    assert judged(gone, lag=0) is Status.OK
    assert judged(gone, lag=7, allowed=7) is Status.OK
    assert judged(gone, lag=8, allowed=7) is Status.STOP


def test_a_consumer_that_commits_nothing_for_longer_than_its_window_has_stopped() -> None:
    covers_s = STEP_S
    assert judged(window([5, 6], [9, 8], last_s=NOW_S - covers_s)) is Status.OK
    assert judged(window([5, 6], [9, 8], last_s=NOW_S - covers_s - 1)) is Status.STOP


def test_a_single_commit_counts_as_stopped_at_once() -> None:
    assert judged(window([5], [9], last_s=NOW_S - 1)) is Status.STOP
    assert judged(window([5], [9], last_s=NOW_S)) is Status.STALL


def test_a_consumer_that_was_at_the_end_minutes_ago_has_not_stopped() -> None:
    quiet = window([900, 900], [0, 0], last_s=NOW_S - 1_000)
    assert judged(quiet, ends=(950, 1_000)) is Status.STOP
    assert judged(quiet, ends=(900, 950, 1_000)) is Status.OK


def test_a_step_back_is_a_rewind_until_the_former_offset_is_reached_again() -> None:
    assert judged(window([10, 20, 5, 8], [0, 0, 40, 40])) is Status.REWIND
    assert judged(window([10, 20, 5, 20], [9, 8, 40, 30])) is Status.OK, "recovered"
    assert judged(window([10, 20, 5, 30, 25], [9, 9, 9, 9, 9])) is Status.WARN, "only the first step back counts"


def test_a_rewind_counts_even_if_lag_was_zero_in_the_window() -> None:
    assert judged(window([10, 20, 5, 6], [0, 0, 15, 14])) is Status.REWIND


def test_zero_lag_anywhere_in_the_window_makes_the_partition_ok() -> None:
    assert judged(window([5, 5, 5], [0, 10, 20])) is Status.OK
    assert judged(window([5, 5, 5], [3, 10, 20]), allowed=3) is Status.OK
    assert judged(window([5, 5, 5], [3, 10, 20])) is Status.STALL


def test_equal_offsets_are_a_stall() -> None:
    assert judged(window([5, 5, 5], [20, 10, 5])) is Status.STALL, "even if lag decreases, as after a truncation"


def test_lag_that_never_decreases_is_a_warning() -> None:
    assert judged(window([5, 6, 7], [10, 10, 20])) is Status.WARN
    assert judged(window([5, 6, 7], [10, 9, 20])) is Status.OK


def test_commits_with_unknown_lag_are_skipped_by_the_rules_about_lag() -> None:
    assert judged(window([5, 6, 7], [10, None, 9])) is Status.OK
    assert judged(window([5, 6, 7], [None, None, None])) is Status.WARN
    assert judged(window([5, 5], [None, 0])) is Status.OK


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], Status.OK),
        ([Status.OK, Status.OK], Status.OK),
        ([Status.OK, Status.WARN], Status.WARN),
        ([Status.STOP], Status.ERR),
        ([Status.REWIND, Status.WARN], Status.ERR),
    ],
)
def test_a_group_has_the_worst_status_of_its_partitions_at_most_err(partitions: list[Status], expected: Status) -> None:
    assert group_status(partitions) is expected


def test_the_change_of_lag_counts_until_now_and_not_until_the_last_commit() -> None:
    commits = window([0, 10], [100, 90], last_s=NOW_S - 90)
    assert change_per_second(commits, 300, NOW_S * 1000) == 2.0
    assert change_per_second(commits[:1], 300, NOW_S * 1000) is None
    assert [trend(7, each) for each in (2.0, -1.0, 0.0, None)] == [
        Trend.GROWING,
        Trend.SHRINKING,
        Trend.STEADY,
        Trend.UNKNOWN,
    ]
    assert trend(0, -1.0) is Trend.CAUGHT_UP


def test_a_consumer_catches_up_when_its_lag_shrinks_to_zero() -> None:
    assert seconds_to_catch_up(100, -4.0, Status.OK) == 25.0
    assert seconds_to_catch_up(0, None, Status.OK) == 0.0
    assert seconds_to_catch_up(100, 4.0, Status.WARN) is None
    assert seconds_to_catch_up(100, -4.0, Status.STOP) is None, "it consumes nothing"


def test_windows_get_the_status_that_burrow_gave_them() -> None:
    """Random windows, with the answers of LinkedIn's Burrow (`calculatePartitionStatus`, 2025-10)."""
    wrong = []
    facts = [json.loads(line) for line in FACTS.read_text().splitlines()]
    for fact in facts:
        commits = [Commit(offset, at_ms, 0, lag) for offset, at_ms, lag in fact["commits"]]
        found = partition_status(Window.of(commits), fact["ends"], fact["lag"], fact["now_s"], fact["allowed"])
        if found.name != fact["status"]:
            wrong.append((fact, found.name))
    assert not wrong
    assert {fact["status"] for fact in facts} == {"OK", "WARN", "STOP", "STALL", "REWIND"}
