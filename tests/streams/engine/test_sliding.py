"""Sliding windows that are aligned to rows: which there are, and which rows are in them."""

from __future__ import annotations

import pytest

from odradek.streams.engine.steps.aggregates import Aggregates
from odradek.streams.engine.steps.alignment import next_end, windows
from odradek.streams.engine.steps.sliding import SlidingWindows
from streams.engine.cutting import LATE, SECOND, Line, arrivals, cut, results_of

SIZE = 5 * SECOND
COUNT = Aggregates(("count",), ((0,),))


def counts_of_a(seconds, path, grace):
    """By the end of each window of the key `a`; others may move time in between."""
    rows = arrivals([(0, time * SECOND, (key, 1)) for key, time in [*seconds, ("end", 60)]])
    line = Line(lambda: SlidingWindows((0,), COUNT, SIZE, grace), (0,), (0,), path)
    found = results_of(line, cut(rows, 0))
    return {one.values[2] / SECOND: one.values[3] for one in found if one.values[0] == "a"}


@pytest.mark.parametrize("grace", [0, LATE])
def test_a_row_counts_in_later_windows_although_its_own_is_over(tmp_path, grace):
    assert counts_of_a([("a", 0), ("b", 3), ("a", 4)], tmp_path / "a.db", grace) == {0.0: 1, 4.0: 2, 5.001: 1}


def test_a_row_of_the_newest_time_is_in_its_window_without_grace(tmp_path):
    assert counts_of_a([("a", 0), ("a", 1)], tmp_path / "a.db", 0) == {0.0: 1, 1.0: 2, 5.001: 1}


def test_the_next_end_is_found_without_looking_at_every_row():
    class Counted(list):
        looks = 0

        def __getitem__(self, index):
            self.looks += 1
            return super().__getitem__(index)

        def __iter__(self):
            raise AssertionError("all rows were looked at")

    times = Counted(range(100_000))
    assert next_end(times, 100_000, after=50_000) == 50_001
    assert times.looks < 50


def test_no_window_ends_before_the_next_end():
    times = [0, 3, 9, 10, 30]
    for after in range(-1, 40):
        kept = [time for time in times if time >= after - 5]
        ends = [window.end for window in windows(kept, 5, after=after, through=100)]
        expected = next_end(kept, 5, after=after)
        assert (expected is None) == (not kept)
        assert not ends or expected <= min(ends)
