"""A function with state and timers on the engine: the same results however its rows come together."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from odradek.streams import ListState, MapState, State, Timers
from odradek.streams.compile.state.fold_step import FoldStep
from odradek.streams.compile.state.process import checked_plan
from odradek.streams.compile.state.process_step import ProcessStep
from odradek.streams.engine.shard import Arrival
from odradek.streams.engine.store import STATE_ROWS, read_figures
from streams.engine.cutting import LATE, SECOND, Line, arrivals, cut, results_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS = StructType(
    [StructField("who", StringType()), StructField("n", IntegerType()), StructField("_time", TimestampType())]
)


def step(function, out="who string, what string", on_timer=None, ttl=None, dead_letters=False):
    plan = checked_plan(
        ROWS,
        ["who"],
        function,
        StructType([StructField("who", StringType()), StructField("what", StringType())]),
        on_timer=on_timer,
        ttl=ttl,
        timers="event",
        dead_letters=dead_letters,
        timed=True,
    )
    return lambda: ProcessStep(plan, late=LATE, waits=True)


def with_times(rows):
    """Rows of the step: who, n, and their time as a column."""
    return [
        Arrival(row.at, row.port, row.time, None, False, (*row.values, EPOCH + timedelta(microseconds=row.time)))
        for row in arrivals(rows)
    ]


class Silence:
    """Says when a key was silent for five seconds, and how many rows it had seen by then."""

    def on_rows(self, key, rows, seen: State[int], timers: Timers):
        for row in rows:
            seen.value = (seen.value or 0) + 1
            timers.clear()
            timers.after("5 seconds")
            yield {"who": key, "what": f"row {row.n} is number {seen.value}"}

    def on_timer(self, key, time, seen: State[int]):
        yield {"who": key, "what": f"silent at {time.isoformat()} after {seen.value}"}


class Everything:
    """Uses every kind of state, several timers at once, and timers that set timers."""

    def on_rows(self, key, rows, last: ListState[int], counts: MapState[int, int], timers: Timers):
        for row in rows:
            last.append(row.n)
            counts[row.n] = counts.get(row.n, 0) + 1
            timers.at(row._time + timedelta(seconds=row.n))
            timers.after("4 seconds")

    def on_timer(self, key, time, last: ListState[int], counts: MapState[int, int], timers: Timers):
        yield {"who": key, "what": f"{time.isoformat()} {list(last)} {sorted(counts.items())}"}
        last.clear()
        if len(counts) > 3:
            counts.clear()
            timers.after("2 seconds")


def forgetful(key, rows, seen: State[int]):
    for row in rows:
        seen.value = (seen.value or 0) + 1
        yield {"who": key, "what": f"{row.n} {seen.value}"}


@st.composite
def inputs(draw):
    newest, rows = 0, []
    for _ in range(draw(st.integers(1, 20))):
        time = draw(st.integers(max(0, newest - LATE), newest + 8 * SECOND))
        newest = max(newest, time)
        rows.append((0, time, (draw(st.sampled_from("ab")), draw(st.integers(0, 6)))))
    return rows


CASES = {
    "silence": step(Silence),
    "everything": step(Everything),
    "ttl": step(forgetful, ttl="6 seconds"),
}


@pytest.mark.parametrize("case", CASES)
def test_results_do_not_depend_on_how_rows_come_together(case, tmp_path_factory):
    @settings(max_examples=60)
    @given(rows=inputs(), seed=st.integers(1, 1000), kill=st.integers(0, 8))
    def holds(rows, seed, kill):
        folder = tmp_path_factory.mktemp("cut")
        rows = with_times(rows)
        expected = results_of(Line(CASES[case], [0], [0], folder / "whole.db"), cut(rows, 0))
        found = results_of(Line(CASES[case], [0], [0], folder / "pieces.db"), cut(rows, seed), kills=[kill])
        assert Counter(found) == Counter(expected)
        assert found == expected

    holds()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_timer_that_is_due_before_the_next_row_fires_before_it(seed, tmp_path):
    rows = with_times([(0, 0, ("a", 1)), (0, 600 * SECOND, ("a", 2)), (0, 1200 * SECOND, ("b", 3))])

    class Idle:
        def on_rows(self, key, rows, timers: Timers):
            for _ in rows:
                timers.clear()
                timers.after("2 minutes")

        def on_timer(self, key, time):
            yield {"who": key, "what": time.isoformat()}

    found = results_of(Line(step(Idle), [0], [0], tmp_path / "state.db"), cut(rows, seed))
    assert [one.values for one in found] == [("a", "1970-01-01T00:02:00+00:00"), ("a", "1970-01-01T00:12:00+00:00")]


def test_an_aggregate_in_python_ends_alike_however_rows_come_together(tmp_path_factory):
    result = StructType([StructField("total", IntegerType()), StructField("last", IntegerType())])

    def add(total, row):
        return None if row.n == 6 else {"total": total["total"] + row.n, "last": row.n}

    def make(each_change=False):
        return FoldStep(("who",), {"total": 0, "last": 0}, add, ROWS, result, each_change=each_change)

    def make_each():
        return make(each_change=True)

    @settings(max_examples=60)
    @given(rows=inputs(), seed=st.integers(1, 1000), kill=st.integers(0, 8))
    def holds(rows, seed, kill):
        folder = tmp_path_factory.mktemp("cut")
        rows = with_times(rows)
        expected = results_of(Line(make, [0], [], folder / "whole.db"), cut(rows, 0))
        found = results_of(Line(make, [0], [], folder / "pieces.db"), cut(rows, seed), kills=[kill])
        last = {one.values[0]: (one.values, one.deleted) for one in found}
        assert last == {one.values[0]: (one.values, one.deleted) for one in expected}
        each = results_of(Line(make_each, [0], [], folder / "each.db"), cut(rows, seed), kills=[kill])
        assert each == results_of(Line(make_each, [0], [], folder / "each-whole.db"), cut(rows, 0))

    holds()


class Visits:
    """Forgets all of a key ten seconds after its first row, or at once when the row says so."""

    def on_rows(self, key, rows, seen: State[int], timers: Timers):
        for row in rows:
            if row.n == 0:
                timers.clear()
                seen.clear()
            elif seen.value is None:
                seen.value = row.n
                timers.after("10 seconds")

    def on_timer(self, key, time, seen: State[int]):
        yield {"who": key, "what": f"{seen.value}"}
        seen.clear()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_key_without_state_and_timers_is_not_kept(seed, tmp_path):
    rows = [("a", 1, 0), ("b", 0, 0), ("c", 2, 1), ("c", 0, 2), ("d", 3, 30), ("a", 4, 31)]
    line = Line(step(Visits), [0], [0], tmp_path / "state.db")
    found = results_of(line, cut(with_times([(0, at * SECOND, (who, n)) for who, n, at in rows]), seed))
    assert [one.values for one in found] == [("a", "1")]
    assert read_figures(tmp_path / "state.db")[STATE_ROWS] == 2, "a and d"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_key_that_has_a_timer_alone_is_kept_for_it(seed, tmp_path):
    class Reminded:
        def on_rows(self, key, rows, timers: Timers):
            for _ in rows:
                timers.after("10 seconds")

        def on_timer(self, key, time):
            yield {"who": key, "what": "now"}

    line = Line(step(Reminded), [0], [0], tmp_path / "state.db")
    found = results_of(line, cut(with_times([(0, 0, ("a", 1)), (0, 30 * SECOND, ("b", 1))]), seed))
    assert [one.values for one in found] == [("a", "now")]
    assert read_figures(tmp_path / "state.db")[STATE_ROWS] == 1, "b"
