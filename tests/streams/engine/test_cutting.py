"""However the input is cut into micro-batches, each step of the engine gives the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.streams.engine.steps.aggregates import Aggregates
from odradek.streams.engine.steps.duplicates import Duplicates
from odradek.streams.engine.steps.lookup import Lookup
from odradek.streams.engine.steps.sliding import SlidingWindows
from odradek.streams.engine.steps.stream_join import StreamJoin
from odradek.streams.engine.steps.table_join import TableJoin
from odradek.streams.engine.steps.totals import Totals
from odradek.streams.engine.steps.windows import FixedWindows, Sessions
from streams.engine.cutting import LATE, SECOND, Line, arrivals, cut, results_of

SUMS = Aggregates(("count", "sum", "collect_list"), ((0,), (1,), (1,)))
STEPS = {
    "tumbling": (lambda: FixedWindows((0,), SUMS, 10 * SECOND, 10 * SECOND, LATE), (0,), (0,)),
    "hopping": (lambda: FixedWindows((0,), SUMS, 10 * SECOND, 4 * SECOND, LATE), (0,), (0,)),
    "session": (lambda: Sessions((0,), SUMS, 5 * SECOND, LATE), (0,), (0,)),
    "sliding": (lambda: SlidingWindows((0,), SUMS, 5 * SECOND, LATE), (0,), (0,)),
    "deduplicate": (lambda: Duplicates((0,), 6 * SECOND, LATE), (0,), (0,)),
    "inner join": (lambda: stream_join("inner"), (0, 1), (0, 1)),
    "left join": (lambda: stream_join("left"), (0, 1), (0, 1)),
    "right join": (lambda: stream_join("right"), (0, 1), (0, 1)),
    "outer join": (lambda: stream_join("outer"), (0, 1), (0, 1)),
    "table join, each change": (lambda: table_join(each_change=True), (0, 1), ()),
    "lookup": (lambda: Lookup((0, 1), ((0,), (0,)), (1,), left=True, late=LATE, as_of=True), (0, 1), (0,)),
}
UPDATING = {
    "totals": (lambda: Totals((0,), SUMS), (0,), ()),
    "window updates": (
        lambda: FixedWindows((0,), SUMS, 10 * SECOND, 10 * SECOND, LATE, updates=True, finals=False),
        (0,),
        (0,),
    ),
    "table join": (lambda: table_join(each_change=False), (0, 1), ()),
}


def stream_join(how):
    return StreamJoin((0, 1), ((0,), (0,)), (2, 2), how=how, before=2 * SECOND, after=3 * SECOND, late=LATE)


def table_join(each_change):
    return TableJoin((0, 1), ((0,), (0,)), ((1,), (1,)), "outer", each_change=each_change)


@st.composite
def inputs(draw, ports):
    """Rows of which none is more than LATE behind the newest before it, of any port."""
    newest, rows = 0, []
    for _ in range(draw(st.integers(1, 25))):
        time = draw(st.integers(max(0, newest - LATE), newest + 9 * SECOND))
        newest = max(newest, time)
        rows.append((draw(st.sampled_from(ports)), time, (draw(st.sampled_from("ab")), draw(st.integers(0, 9)))))
    return rows


def plain(results):
    return Counter((one.time, repr(one.values), one.deleted) for one in results)


@pytest.mark.parametrize("verb", STEPS)
def test_results_do_not_depend_on_how_the_input_is_cut(verb, tmp_path_factory):
    make, ports, timed = STEPS[verb]

    @settings(max_examples=60)
    @given(rows=inputs(ports), seed=st.integers(1, 1000), kill=st.integers(0, 8))
    def holds(rows, seed, kill):
        folder = tmp_path_factory.mktemp("cut")
        rows = arrivals(rows)
        whole = Line(make, ports, timed, folder / "whole.db")
        pieces = Line(make, ports, timed, folder / "pieces.db")
        expected = results_of(whole, cut(rows, 0))
        found = results_of(pieces, cut(rows, seed), kills=[kill])
        assert plain(found) == plain(expected)
        assert found == sorted(found, key=lambda one: one.at), "results come in the order of the rows"
        assert sorted(found, key=lambda one: one.at) == sorted(expected, key=lambda one: one.at)
        assert whole.late == pieces.late == 0

    holds()


@pytest.mark.parametrize("verb", UPDATING)
def test_the_last_update_of_a_key_does_not_depend_on_how_the_input_is_cut(verb, tmp_path_factory):
    make, ports, timed = UPDATING[verb]

    def last(results):
        found = {}
        for one in sorted(results, key=lambda one: one.at):
            found[one.values[:3] if "window" in verb else one.values[0]] = (one.values, one.deleted)
        return found

    @settings(max_examples=60)
    @given(rows=inputs(ports), seed=st.integers(1, 1000), kill=st.integers(0, 8))
    def holds(rows, seed, kill):
        folder = tmp_path_factory.mktemp("cut")
        rows = arrivals(rows)
        expected = results_of(Line(make, ports, timed, folder / "whole.db"), cut(rows, 0))
        found = results_of(Line(make, ports, timed, folder / "pieces.db"), cut(rows, seed), kills=[kill])
        assert last(found) == last(expected)

    holds()


def test_late_rows_are_counted_alike_however_they_are_cut(tmp_path):
    rows = arrivals([(0, 0, ("a", 1)), (0, 60 * SECOND, ("b", 2)), (0, SECOND, ("a", 3)), (0, 58 * SECOND, ("a", 4))])
    lines = [Line(*STEPS["tumbling"], tmp_path / f"{seed}.db") for seed in range(5)]
    for seed, line in enumerate(lines):
        results_of(line, cut(rows, seed))
    assert [line.late for line in lines] == [1] * 5


@pytest.mark.parametrize("verb", [verb for verb in STEPS if verb != "lookup"])
def test_a_row_is_used_or_given_as_late_and_never_both(verb, tmp_path_factory):
    make, ports, timed = STEPS[verb]

    @settings(max_examples=40)
    @given(times=st.lists(st.integers(0, 60), min_size=1, max_size=25), seed=st.integers(1, 1000))
    def holds(times, seed):
        folder = tmp_path_factory.mktemp("late")
        wanted = [(ports[n % len(ports)], time * SECOND, ("a", n)) for n, time in enumerate(times)]
        rows = [replace(row, whole=str(row.values[1]).encode()) for row in arrivals(wanted)]
        whole, pieces = (Line(make, ports, timed, folder / f"{name}.db") for name in ("whole", "pieces"))
        results_of(whole, cut(rows, 0))
        results_of(pieces, cut(rows, seed))
        assert sorted(whole.given_late, key=_at) == sorted(pieces.given_late, key=_at)
        assert whole.late == len(whole.given_late)
        late = {one.values[0] for one in whole.given_late}
        without = Line(make, ports, timed, folder / "without.db")
        used = [row for row in rows if row.whole not in late]
        beats_of_all = results_of(without, [used], moving=rows)
        assert plain(beats_of_all) == plain(results_of(Line(make, ports, timed, folder / "again.db"), cut(rows, 0)))
        for one in whole.given_late:
            assert one.values[1] > LATE, "it is further behind than rows may be"
            assert one.values[2] in ports

    holds()


def _at(result):
    return result.at
