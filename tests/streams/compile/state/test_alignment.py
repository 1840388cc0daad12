from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.streams.engine.steps.alignment import forgettable, next_end, windows

TIMES = st.lists(st.integers(0, 60), max_size=12).map(sorted)
SIZES = st.integers(1, 15)


def members(times, size, *, after=-1000, through=100_000):
    return {(w.start, w.end): times[w.first : w.beyond] for w in windows(times, size, after=after, through=through)}


def test_the_example_of_kafka_streams() -> None:
    assert members([8000, 9200, 12400], 5000) == {
        (3000, 8000): [8000],
        (4200, 9200): [8000, 9200],
        (7400, 12400): [8000, 9200, 12400],
        (8001, 13001): [9200, 12400],
        (9201, 14201): [12400],
    }


@given(TIMES, SIZES)
def test_every_set_of_records_that_fits_has_a_window(times, size) -> None:
    def inside(start):
        return [time for time in times if start <= time <= start + size]

    starts = {time - size for time in times} | {time + 1 for time in times}
    assert members(times, size) == {(s, s + size): inside(s) for s in starts if inside(s)}
    slid = {tuple(inside(start)) for start in range(-20, 80)} - {()}
    assert {tuple(window) for window in members(times, size).values()} == slid


@given(TIMES, SIZES, st.lists(st.integers(0, 90), max_size=6).map(sorted))
def test_closing_in_steps_and_forgetting_gives_the_same_windows(times, size, steps) -> None:
    closed, kept, seen = -1000, list(times), {}
    for now in [*steps, 1000]:
        end = next_end(kept, size, after=closed)
        due = members(kept, size, after=closed, through=now)
        assert not due or (end is not None and end <= min(end for _, end in due))
        assert not due.keys() & seen.keys()
        seen |= due
        kept = kept[forgettable(kept, size, closed=now) :]
        closed = now
    assert seen == members(times, size)
    assert next_end(kept, size, after=closed) is None
