"""What comes of one record keeps one order through flat_map, merges and exchanges, and time keeps its place in it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.streams.engine.clock import Source
from streams.compile.topology.line import Handed, Lane, Level, Topology, placed, record, shown
from streams.engine.cutting import LATE, SECOND, cut

ORDERS, OTHERS, ITEMS, JOINED, COLLECTED = range(5)
TIME = Source(9, LATE)
OTHER_TIME = Source(8, LATE)


class Collected(Handed):
    """Gives with each row all rows of its key before."""

    def take(self, row, now, step):
        key, what = row.values
        kept = [*(step.cells.get(key.encode()) or ()), what]
        step.cells.put(key.encode(), kept)
        step.give(row.time, (key, " ".join(kept)))


class Timed(Handed):
    """Sets a timer five seconds after each row, and gives with each row how many have fired."""

    def take(self, row, now, step):
        place = row.values[0].encode()
        step.timers.set(row.time + 5 * SECOND, place)
        step.give(row.time, (row.values[0], f"{row.time // SECOND} s: {step.cells.get(place) or 0}"))

    def pass_time(self, now, step):
        while (due := step.timers.pop(now)) is not None:
            step.cells.put(due[1], (step.cells.get(due[1]) or 0) + 1)


def collected():
    return {COLLECTED: placed(72, Collected(), [2])}


def handed():
    return {JOINED: placed(71, Handed(), [1])}


def items(row):
    """A record `a-b-c` has three items."""
    return [{"key": item, "what": f"{row.key}-{item}"} for item in row.what.split("-")]


def order(_key, what):
    return what.partition(":")[2].partition("-")[0]


LINES = {
    "flat_map, a step by item, a step by order": [
        Level(lanes=[Lane(number=0, origin=ORDERS, made=ITEMS)], flat=items),
        Level(lanes=[Lane(number=1, origin=ITEMS, port=1)], steps=handed),
        Level(lanes=[Lane(number=2, origin=JOINED, port=2, key=order)], steps=collected),
    ],
    "two merged lanes of one record": [
        Level(
            lanes=[
                Lane(number=0, origin=ORDERS, port=1, key=lambda key, what: f"{key}-{what[:1]}"),
                Lane(number=1, origin=ORDERS, port=1, key=lambda key, what: f"{key}-{what[-1:]}"),
            ],
            steps=handed,
        ),
        Level(lanes=[Lane(number=2, origin=JOINED, port=2, key=lambda key, _what: key[0])], steps=collected),
    ],
    "beside its own flat_map": [
        Level(
            lanes=[Lane(number=0, origin=ORDERS, made=ITEMS), Lane(number=1, origin=ORDERS, port=1)],
            flat=items,
        ),
        Level(lanes=[Lane(number=2, origin=ITEMS, port=1)], steps=handed),
        Level(lanes=[Lane(number=3, origin=JOINED, port=2, key=lambda _key, _what: "all")], steps=collected),
    ],
}


def results(levels, rows, folder, cut_seed, shuffle, monkeypatch):
    line = Topology(levels, str(folder), shuffle, monkeypatch)
    return [one for batch in cut(rows, cut_seed) for one in shown(line.run(batch), COLLECTED)]


@pytest.mark.parametrize("name", LINES)
def test_results_depend_neither_on_cuts_nor_on_the_order_of_an_exchange(name, tmp_path_factory, monkeypatch):
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        orders=st.lists(st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("abcd"), min_size=1, max_size=4))),
        seed=st.integers(1, 1000),
    )
    def holds(orders, seed):
        folder = tmp_path_factory.mktemp("cut")
        rows = [record(ORDERS, n, n * SECOND, key, "-".join(what)) for n, (key, what) in enumerate(orders)]
        expected = results(LINES[name], rows, folder / "whole", 0, 1, monkeypatch)
        assert results(LINES[name], rows, folder / "pieces", seed, seed, monkeypatch) == expected

    holds()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_row_that_skips_a_step_comes_after_the_time_that_it_moved(seed, tmp_path, monkeypatch):
    levels = [
        Level(
            lanes=[
                Lane(number=0, origin=ORDERS, port=1, source=TIME),
                Lane(number=1, origin=OTHERS, port=2, source=OTHER_TIME),
            ],
            steps=lambda: {JOINED: placed(71, Handed(), [1], [9])},
        ),
        Level(
            lanes=[Lane(number=2, origin=JOINED, port=2)],
            steps=lambda: {COLLECTED: placed(72, Timed(), [2], [9, 8])},
        ),
    ]
    rows = [
        record(ORDERS, 0, 0, "x", ""),
        record(OTHERS, 1, 0, "x", ""),
        record(ORDERS, 2, 600 * SECOND, "y", ""),
        record(OTHERS, 3, 600 * SECOND, "x", ""),
    ]
    found = results(levels, rows, tmp_path, seed, 1, monkeypatch)
    assert [what for key, what in found if key == "x"] == ["0 s: 0", "0 s: 0", "600 s: 1"]
