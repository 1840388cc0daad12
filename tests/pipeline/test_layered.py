"""The layout: nothing overlaps, arrows go forward, the same graph gives the same picture."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.pipeline.layered import BOX_GAP, Box, _spread, arrange


def boxes(names: str) -> list[Box]:
    return [Box(key=name, width=100 + 10 * index, height=40 + 5 * index) for index, name in enumerate(names)]


edges_of_eight = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=16)


@given(edges=edges_of_eight)
@settings(deadline=None)
def test_boxes_never_overlap_and_every_arrow_is_drawn(edges):
    laid = arrange(boxes("abcdefgh"), edges)
    places = list(laid.places.values())
    for index, one in enumerate(places):
        assert one.x >= 0
        assert one.y >= -0.001
        assert one.x + one.width <= laid.width + 0.001
        assert one.y + one.height <= laid.height + 0.001
        for other in places[:index]:
            apart = (
                one.x + one.width < other.x
                or other.x + other.width < one.x
                or one.y + one.height + BOX_GAP <= other.y + 0.001
                or other.y + other.height + BOX_GAP <= one.y + 0.001
            )
            assert apart
    assert {(route.source, route.target) for route in laid.routes} == {edge for edge in edges if edge[0] != edge[1]}
    assert arrange(boxes("abcdefgh"), edges) == laid


def test_a_chain_is_a_straight_line_and_arrows_go_right():
    laid = arrange(boxes("abcd"), [("a", "b"), ("b", "c"), ("c", "d")])
    assert len({y for route in laid.routes for _, y in route.points}) == 1
    assert [laid.places[key].x for key in "abcd"] == sorted(laid.places[key].x for key in "abcd")
    assert all(route.points[0][0] < route.points[-1][0] for route in laid.routes)


def test_a_source_stands_right_before_what_it_feeds():
    laid = arrange(boxes("abct"), [("a", "b"), ("b", "c"), ("t", "c")])
    assert laid.places["b"].x < laid.places["t"].x + laid.places["t"].width < laid.places["c"].x


def test_a_circle_is_drawn_as_an_arrow_back():
    laid = arrange(boxes("abc"), [("a", "b"), ("b", "c"), ("c", "a")])
    [back] = [route for route in laid.routes if (route.source, route.target) == ("c", "a")]
    assert back.points[0][0] > back.points[-1][0]


def test_crossings_are_untangled():
    laid = arrange(boxes("abcxyz"), [("a", "z"), ("b", "y"), ("c", "x")])
    by_height = sorted("abc", key=lambda key: laid.places[key].y)
    assert sorted("xyz", key=lambda key: laid.places[key].y) == [
        {"a": "z", "b": "y", "c": "x"}[key] for key in by_height
    ]


def test_a_tangle_that_one_sweep_does_not_leave_is_untangled():
    """Two boxes must change places at once: from the first order, sweeping alone keeps one crossing."""
    edges = [("a", "x"), ("a", "z"), ("b", "y"), ("x", "m"), ("y", "m"), ("z", "f"), ("m", "l"), ("p", "l"), ("p", "k")]
    laid = arrange(boxes("abpxyzmflk"), [*edges, ("f", "k")])

    def layer(key: str) -> float:
        return laid.places[key].x + laid.places[key].width / 2

    def height(key: str) -> float:
        return laid.places[key].y + laid.places[key].height / 2

    for source, target in edges:
        for other, aim in edges:
            if (layer(source), layer(target)) == (layer(other), layer(aim)):
                assert (height(source) - height(other)) * (height(target) - height(aim)) >= 0


@given(wanted=st.lists(st.floats(-1000, 1000), min_size=1, max_size=8))
def test_boxes_stay_as_near_to_their_wish_as_order_and_gaps_allow(wanted):
    gaps = [0.0] + [10.0] * (len(wanted) - 1)
    placed = _spread(wanted, [1.0] * len(wanted), gaps)
    assert all(lower - upper >= 10.0 - 1e-6 for upper, lower in itertools.pairwise(placed))
    if all(lower - upper >= 10.0 for upper, lower in itertools.pairwise(wanted)):
        assert all(abs(one - other) < 1e-6 for one, other in zip(placed, wanted, strict=True))


def test_an_empty_graph_is_an_empty_picture():
    laid = arrange([], [])
    assert (laid.width, laid.height, list(laid.routes)) == (0, 0, [])
