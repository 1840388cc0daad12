"""Reset names what would go, touches nothing else, and refuses while the application runs; status knows the lag."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.streams import App
from odradek.streams.lifecycle.layout import Layout
from odradek.streams.lifecycle.lock import AlreadyRunning, AppLock
from odradek.streams.lifecycle.recording import AppRecord, QueryRecord
from odradek.streams.lifecycle.reset import carry_out, plan_reset
from odradek.streams.lifecycle.status import status
from odradek.streams.views.store import StoreBusy, locked

COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def cluster(odradek):
    return Admin(odradek.bootstrap_servers)


@pytest.fixture
def layout(tmp_path):
    return Layout(str(tmp_path), "fleet")


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def record(layout: Layout, bootstrap: str, *, topics=(), state="waiting") -> None:
    layout.folder.mkdir(parents=True, exist_ok=True)
    AppRecord(
        application=layout.app,
        bootstrap=bootstrap,
        internal_topics=tuple(topics),
        pid=1,
        started_s=0,
        written_s=0,
        queries=(QueryRecord(name="count", state=state),),
    ).write(layout.status)


@pytest.fixture
def worn(odradek, cluster, layout):
    """An application that has run, beside another with a longer name."""
    for topic in ("in", "out", "fleet-alerts-changelog", "fleet-old-changelog", "fleet-east-alerts-changelog"):
        cluster.create_topic(topic, 1)
    for group in ("fleet.count", "fleet.east.count", "fleet"):
        commit(odradek.bootstrap_servers, group, "in", 1)
    record(layout, odradek.bootstrap_servers, topics=["fleet-alerts-changelog"])
    layout.steps("count").parent.mkdir()
    layout.steps("count").write_text("")
    (layout.folder / "count" / "offsets").mkdir(parents=True)
    (layout.folder / "count" / "offsets" / "0").write_text("v1")
    for store in (layout.view_store("old"), layout.served_store("alerts")):
        store.parent.mkdir()
        store.write_bytes(b"")
    return layout


def test_the_plan_names_what_would_go_and_touches_nothing(cluster, worn):
    planned = plan_reset(worn, cluster)
    assert [path.name for path in planned.checkpoints] == ["count"]
    assert sorted(path.name for path in planned.views) == ["alerts.db", "old.db"]
    assert planned.groups == ("fleet.count",)
    assert planned.topics == ("fleet-alerts-changelog", "fleet-old-changelog")
    assert planned.left_alone == ("group fleet.east.count", "topic fleet-east-alerts-changelog")
    assert plan_reset(worn, cluster) == planned


def test_carried_out_it_is_as_if_the_application_had_never_run(cluster, worn):
    carry_out(plan_reset(worn, cluster), cluster)
    assert cluster.topics() == ["fleet-east-alerts-changelog", "in", "out"]
    assert cluster.groups() == ["fleet", "fleet.east.count"]
    assert not worn.folder.exists()
    again = plan_reset(worn, cluster)
    assert again.is_empty
    carry_out(again, cluster)


def test_two_resets_at_once_are_as_good_as_one(cluster, worn):
    first, second = plan_reset(worn, cluster), plan_reset(worn, cluster)
    carry_out(first, cluster)
    carry_out(second, cluster)
    assert not worn.folder.exists()


def test_a_running_application_is_not_reset(cluster, worn):
    planned = plan_reset(worn, cluster)
    lock = AppLock(worn)
    with pytest.raises(AlreadyRunning):
        carry_out(planned, cluster)
    lock.release()
    assert plan_reset(worn, cluster) == planned


def test_a_view_that_is_served_is_not_reset(cluster, worn):
    planned = plan_reset(worn, cluster)
    with locked(worn.served_store("alerts")), pytest.raises(StoreBusy, match=r"alerts\.db.*\nStop that first"):
        carry_out(planned, cluster)
    assert plan_reset(worn, cluster) == planned


def test_a_directory_in_which_nothing_has_run_is_not_ours(cluster, layout):
    (layout.folder / "photographs").mkdir(parents=True)
    assert plan_reset(layout, cluster).is_empty


def test_the_code_knows_what_the_directory_does_not(odradek, cluster, tmp_path):
    app = App("fleet")
    counts = app.stream("in", schema="a string").group_by("a").count()
    counts.materialize("counts")
    cluster.create_topic("in", 1)
    cluster.create_topic(app.changelog("counts"), 1, COMPACTED)
    commit(odradek.bootstrap_servers, "fleet.aggregate-1-updates", "in", 1)
    planned = plan_reset(Layout("s3a://bucket", "fleet"), cluster, app.graph)
    assert planned.groups == ("fleet.aggregate-1-updates",)
    assert planned.topics == ("fleet-counts-changelog",)
    assert planned.out_of_reach == ("s3a://bucket/fleet/aggregate-1-updates",)


def test_status_tells_the_lag_and_who_is_gone(odradek, cluster, layout):
    bootstrap = odradek.bootstrap_servers
    assert status(layout, cluster) is None
    record(layout, bootstrap)
    [query] = status(layout, cluster).queries
    assert (query.state, query.lag) == ("killed", None)
    cluster.create_topic("in", 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(10):
        producer.produce("in", value=b"x")
    assert producer.flush(10) == 0
    commit(bootstrap, "fleet.count", "in", 7)
    lock = AppLock(layout)
    known = status(layout, cluster)
    lock.release()
    [query] = known.queries
    assert (query.state, query.lag) == ("waiting", {"in": 3})
    assert known.runs_in is not None
    assert status(layout, None).queries[0].lag is None
    cluster.delete_topics(["in"])
    assert not any((status(layout, cluster).queries[0].lag or {}).values())
