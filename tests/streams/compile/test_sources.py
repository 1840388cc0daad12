"""How topics are read: what the Spark source is asked for. No Spark."""

from __future__ import annotations

import pytest

from odradek.streams import App
from odradek.streams.api.rows import node_of
from odradek.streams.compile.sources import ordered
from odradek.streams.compile.topology.levels import topology
from odradek.streams.run.queries import places


def options(*streams):
    """By the name of the stream; `streams`: what each is read with."""
    app = App("t")
    nodes = []
    for number, given in enumerate(streams):
        stream = app.stream(name=f"s{number}", schema="id int, at timestamp", time="at", **given)
        nodes.append(stream)
    both = nodes[0]
    for other in nodes[1:]:
        both = both.join(other, on="id", within="1 minute").select("id")
    both.to("out")
    (query,) = app.queries()
    found = places(query, topology(query.sinks))
    return [ordered(node_of(stream), found[node_of(stream)]) for stream in nodes]


def limits(*streams):
    return [(each.get("maxOffsetsPerTrigger"), each.get("alignTopics")) for each in options(*streams)]


def test_a_micro_batch_of_named_topics_is_bounded_and_ends_at_one_time():
    assert limits({"topic": "a"}, {"topic": "b"}) == [("100000", "a,b")] * 2


def test_a_micro_batch_of_a_pattern_is_bounded_and_its_topics_are_aligned():
    assert limits({"pattern": "region-.*"}) == [("100000", "region-.*")]


def test_a_pattern_beside_named_topics_is_bounded():
    assert limits({"topic": "a"}, {"pattern": "region-.*"}) == [("100000", "a")] * 2


def test_the_limit_of_the_user_holds():
    assert limits({"pattern": "region-.*", "maxOffsetsPerTrigger": "7"}) == [("7", "region-.*")]


@pytest.mark.parametrize(("least", "most"), [("5", "100000"), ("200000", "200000")])
def test_a_micro_batch_that_waits_for_records_is_bounded(least, most):
    assert limits({"topic": "a", "minOffsetsPerTrigger": least}) == [(most, None)]
