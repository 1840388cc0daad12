"""How streams are compiled, as far as that shows without Spark."""

from __future__ import annotations

from odradek.streams import App
from odradek.streams.api.rows import node_of
from odradek.streams.compile.compiling import merges_sources


def test_streams_that_merge_have_a_time_each_and_branches_of_one_stream_share_it():
    app = App("t")
    one, other = app.stream("one", schema="a int"), app.stream("other", schema="a int")
    low, high = one.branch("a < 5")
    assert merges_sources(node_of(one.merge(other).where("a > 1")))
    assert not merges_sources(node_of(low.merge(high)))
    assert not merges_sources(node_of(one.merge(app.table("rests", key="a", schema="a int").to_stream())))
    assert not merges_sources(node_of(one.where("a > 1")))
    assert not merges_sources(node_of(one.merge(other).map_pandas(lambda frame: frame, "a int")))
