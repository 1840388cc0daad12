"""A checkpoint is continued by the steps that made it alone. No Spark: checkpoints are what Spark leaves of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AppLock
from odradek.streams import App, F, PipelineError, tumbling
from odradek.streams.graph.planning import plan
from odradek.streams.run.checkpoint_steps import WORDING, changes, keep_to_the_steps

QUERY = "clicks"  # named after its first stream
STEP = "per-user"


@pytest.fixture
def layout(tmp_path):
    layout = Layout(str(tmp_path), "shop")
    AppLock(layout).release()
    return layout


def shop(window: str = "2 minutes", value: str = "a", accepted: str = "a > 0", name: str = QUERY) -> App:
    app = App("shop")
    clicks = app.stream("clicks", schema="user string, a int, b int", name=name)
    totals = clicks.where(accepted).group_by("user", name=STEP).window(tumbling(window))
    totals.agg(n=F.sum(value)).to("totals")
    clicks.to("copies")
    app.stream("orders", schema="user string").to("paid")
    return app


def begin(layout: Layout, query: str = QUERY) -> None:
    """What Spark writes when the first micro-batch begins."""
    offsets = Path(layout.checkpoint(query), "offsets")
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1")


def started(layout: Layout, app: App) -> None:
    keep_to_the_steps(layout, plan(app.graph, state_on_disk=not layout.is_remote))


def refused(layout: Layout, app: App) -> str:
    with pytest.raises(PipelineError) as told:
        started(layout, app)
    return str(told.value)


def test_other_steps_are_refused_with_what_differs_and_what_to_do(layout):
    started(layout, shop())
    begin(layout)
    kept = layout.steps(QUERY).read_text()
    told = refused(layout, shop(window="3 minutes", value="b"))
    assert told.splitlines()[0] == "clicks has a checkpoint that different steps wrote"
    assert "test_checkpoint_steps.py:" in told
    assert "aggregate: over tumbling 2 minutes → aggregate: over tumbling 3 minutes" in told
    assert "aggregate: sum(a) → aggregate: sum(b)" in told
    assert f"odradek streams reset shop --state-dir {layout.state_dir}" in told
    assert "another name= for clicks" in told
    assert layout.steps(QUERY).read_text() == kept
    started(layout, shop())


def test_the_line_is_that_of_the_step_that_changed(layout):
    def joined(within: str) -> App:
        app = App("shop")
        left, right = (app.stream(topic, schema="user string, at date", time="at") for topic in ("clicks", "orders"))
        both = left.join(right, on="user", within=within)
        both.group_by("user", name=STEP).window(tumbling("1 minute")).count().to("out")
        return app

    started(layout, joined("1 minute"))
    begin(layout)
    assert 'both = left.join(right, on="user", within=within)' in refused(layout, joined("2 minutes"))


def test_one_step_that_changed_refuses_the_query_with_all_its_steps(layout):
    def counted(second: str) -> App:
        app = App("shop")
        clicks = app.stream("clicks", schema="user string, page string")
        clicks.group_by("user").window(tumbling("1 minute")).count().to("users")
        clicks.group_by("page").window(tumbling(second)).count().to("pages")
        return app

    started(layout, counted("2 minutes"))
    begin(layout)
    told = refused(layout, counted("3 minutes"))
    assert 'clicks.group_by("page")' in told
    assert "1 minute" not in told


def test_steps_without_state_may_change_and_another_name_starts_without_state(layout):
    started(layout, shop())
    begin(layout)
    begin(layout, "orders")
    started(layout, shop(accepted="a > 10"))
    started(layout, shop(window="3 minutes", name="clicks-2"))


def test_before_the_first_batch_everything_may_change(layout):
    started(layout, shop())
    Path(layout.checkpoint(QUERY), "offsets").mkdir(parents=True)
    started(layout, shop(window="3 minutes"))
    assert "3 minutes" in layout.steps(QUERY).read_text()


def test_a_checkpoint_without_a_fingerprint_or_in_other_words_is_taken_as_it_is(layout):
    begin(layout)
    started(layout, shop())
    assert layout.steps(QUERY).read_text().startswith(WORDING)
    refused(layout, shop(window="3 minutes"))
    layout.steps(QUERY).write_text("steps, in the words of version 0\n")
    started(layout, shop(window="3 minutes"))
    refused(layout, shop())


def test_one_query_that_is_refused_leaves_those_of_the_others_alone(layout):
    started(layout, shop())
    begin(layout)
    layout.steps("orders").unlink()
    refused(layout, shop(window="3 minutes"))
    assert sorted(path.name for path in layout.steps(QUERY).parent.iterdir()) == [QUERY]


def test_a_checkpoint_out_of_reach_is_known_by_its_fingerprint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = Layout("s3a://bucket/streams", "shop")
    AppLock(layout).release()
    started(layout, shop())
    started(layout, shop())
    assert "s3a://bucket/streams/shop/per-user" in refused(layout, shop(window="3 minutes"))


def test_the_application_is_refused_before_spark_or_a_broker_is_asked(layout):
    started(layout, shop())
    begin(layout)
    app = shop(window="3 minutes")
    for _ in range(2):  # the lock is free again
        with pytest.raises(PipelineError, match="different steps"):
            app.start(bootstrap="127.0.0.1:1", state_dir=layout.state_dir)


def test_what_came_and_what_went_has_nothing_on_the_other_side():
    assert list(changes(["a", "b", "c"], ["a", "c", "d"])) == ["b → nothing", "nothing → d"]


def two_streams(*declared: str, join: bool = True) -> App:
    app = App("shop")
    streams = {topic: app.stream(topic, schema="user string, at timestamp", time="at") for topic in declared}
    if join:
        streams["clicks"].join(streams["orders"], on="user", within="1 minute").to("both")
    else:
        streams["orders"].to("copies")
    return app


def test_a_query_that_would_leave_its_checkpoint_behind_under_another_name_is_refused(layout):
    started(layout, two_streams("clicks", "orders"))
    begin(layout)
    told = refused(layout, two_streams("orders", "clicks"))
    assert told.splitlines()[0] == "the checkpoint of clicks would be left behind"
    assert "the query orders also reads topic clicks and topic orders. It would begin at start=, without" in told
    assert "test_checkpoint_steps.py:" in told
    assert f"odradek streams reset shop --state-dir {layout.state_dir}" in told
    assert not layout.steps("orders").exists()
    started(layout, two_streams("clicks", "orders"))


def test_a_query_that_takes_over_a_topic_of_one_that_is_gone_is_refused(layout):
    started(layout, two_streams("clicks", "orders"))
    begin(layout)
    assert "the checkpoint of clicks would be left behind" in refused(layout, two_streams("orders", join=False))


def test_a_checkpoint_may_be_left_behind_by_another_name_and_by_a_query_of_other_topics(layout):
    started(layout, shop())
    begin(layout)
    started(layout, shop(name="clicks-2", window="3 minutes"))
    other = App("shop")
    other.stream("visits", schema="user string").to("copies")
    started(layout, other)
