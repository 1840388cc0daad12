"""Event time of several sources, some of which stop sending."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.streams.engine.clock import Clock, Source, beats
from odradek.streams.engine.order import record_position

SECOND = 1_000_000
IDLE_AFTER = 2 * SECOND
SOURCES = (Source(0, SECOND, shows_life=True), Source(1, SECOND, IDLE_AFTER, shows_life=True))


def time_through(rows, edges):
    """Where time moves to which moment. `rows`: source, milliseconds since the row before, how late."""
    stamps, at_ms = [], 0
    for number, (source, gap_ms, late_ms) in enumerate(rows):
        at_ms += gap_ms
        stamps.append((source, record_position(at_ms, source, 0, number), (at_ms - late_ms) * 1000))
    clock, seen = Clock(), []
    for begin, end in zip([0, *edges], [*edges, len(stamps)], strict=True):
        heard = [
            beat
            for source in SOURCES
            for beat in beats(source, [(at, time) for number, at, time in stamps[begin:end] if number == source.number])
        ]
        for beat in sorted(heard):
            clock.move(beat)
            now = clock.now((0, 1), {0: None, 1: IDLE_AFTER})
            if now is not None and (not seen or seen[-1][1] != now):
                seen.append((beat.at, now))
    return seen


@given(
    rows=st.lists(st.tuples(st.sampled_from((0, 0, 1)), st.integers(1, 900), st.integers(0, 900)), min_size=1),
    cuts=st.sets(st.integers(1, 39), max_size=3),
)
def test_a_source_falls_silent_at_the_same_row_however_the_input_is_cut(rows, cuts):
    edges = sorted(cut for cut in cuts if cut < len(rows))
    assert time_through(rows, edges) == time_through(rows, []) == time_through(rows, list(range(1, len(rows))))


def test_a_silent_source_holds_time_back_until_it_counts_as_idle():
    both = [(0, 0, 0), (1, 0, 0)]
    assert time_through([*both, (0, 1900, 0)], [])[-1][1] == 0
    assert time_through([*both, (0, 1900, 0), (0, 300, 0)], [])[-1][1] == 2_200_000
    assert time_through([*both, (0, 2500, 0), (1, 1, 0)], [])[-1][1] == 2_500_000, (
        "time does not go back when it is heard"
    )
