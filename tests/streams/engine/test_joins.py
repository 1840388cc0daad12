"""What joins give and keep beside the pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.streams.engine.steps.lookup import Lookup
from odradek.streams.engine.steps.stream_join import StreamJoin
from odradek.streams.engine.store import STATE_ROWS, read_figures
from streams.engine.cutting import LATE, SECOND, Line, arrivals, cut, results_of


def keyed(rows):
    return [replace(row, record_key=f"key of {row.values[1]}".encode()) for row in arrivals(rows)]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_without_a_partner_keeps_the_key_of_its_record(seed, tmp_path):
    def outer():
        return StreamJoin((0, 1), ((0,), (0,)), (2, 2), how="outer", before=SECOND, after=SECOND, late=LATE)

    rows = keyed([(0, 0, ("a", 1)), (1, 0, ("b", 2)), (0, 60 * SECOND, ("c", 3)), (1, 60 * SECOND, ("c", 4))])
    found = results_of(Line(outer, (0, 1), (0, 1), tmp_path / "state.db"), cut(rows, seed))
    assert {(one.values, one.record_key) for one in found} == {
        (("a", 1, None, None), b"key of 1"),
        ((None, None, "b", 2), b"key of 2"),
        (("c", 3, "c", 4), b"key of 3"),
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_a_deleted_key_of_a_table_is_forgotten_when_no_row_can_see_it_any_more(seed, tmp_path):
    def lookup():
        return Lookup((0, 1), ((0,), (0,)), (1,), left=True, late=LATE, as_of=True)

    rows = arrivals(
        [
            (1, 10 * SECOND, ("a", "old")),
            (1, 12 * SECOND, ("b", "old")),
            (0, 20 * SECOND, ("a", 1)),
            (1, 20 * SECOND, ("a", None)),
            (1, 20 * SECOND, ("b", None)),
            (0, 19 * SECOND, ("a", 2)),
            (0, 21 * SECOND, ("a", 3)),
            (1, 22 * SECOND, ("b", "new")),
            (0, 23 * SECOND, ("b", 4)),
            (0, 40 * SECOND, ("b", 5)),
        ]
    )
    rows = [replace(row, deleted=row.values[1] is None) for row in rows]
    line = Line(lookup, (0, 1), (0,), tmp_path / "state.db")
    found = results_of(line, cut(rows, seed))
    assert [one.values[1:] for one in found] == [(1, "old"), (2, "old"), (3, None), (4, "new"), (5, "new")]
    assert read_figures(tmp_path / "state.db")[STATE_ROWS] == 1, "b alone"
