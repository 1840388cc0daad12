"""Reset names what would go, touches nothing else, and refuses while the application runs; status knows the lag."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.pipeline.behind import Behind
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AlreadyRunning, AppLock
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import AppRecord
from odradek.pipeline.status import status
from odradek.streams import App
from odradek.streams.engine.store import ShardStore
from odradek.streams.run.reset import carry_out, plan_reset
from odradek.streams.run.views.store import StoreBusy, locked

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


def test_the_shards_of_the_engine_go_with_the_checkpoint(cluster, worn):
    store = ShardStore(Path(worn.shards("count")) / "level-1" / "shard-0.db")
    store.begin(0)
    store.commit()
    store.close()
    carry_out(plan_reset(worn, cluster), cluster)
    assert not worn.folder.exists()


def test_queries_that_the_code_has_no_more_are_found_where_only_spark_reads(odradek, cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = Layout("s3a://bucket", "fleet")
    record(layout, odradek.bootstrap_servers)
    layout.steps("older").parent.mkdir()
    layout.steps("older").write_text("")
    app = App("fleet")
    app.stream("in", schema="a string").to("out")
    cluster.create_topic("in", 1)
    for group in ("fleet.count", "fleet.in", "fleet.older"):
        commit(odradek.bootstrap_servers, group, "in", 1)
    planned = plan_reset(layout, cluster, app.graph)
    assert planned.groups == ("fleet.count", "fleet.in", "fleet.older")
    assert planned.out_of_reach == tuple(f"s3a://bucket/fleet/{name}" for name in ("count", "in", "older"))
    assert [query.record.name for query in status(layout, cluster).queries] == ["count"]
    carry_out(planned, cluster)
    assert not layout.folder.exists()


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
    cluster.create_topic("fleet-counts-changelog", 1, COMPACTED)
    commit(odradek.bootstrap_servers, "fleet.in", "in", 1)
    planned = plan_reset(Layout("s3a://bucket", "fleet"), cluster, app.graph)
    assert planned.groups == ("fleet.in",)
    assert planned.topics == ("fleet-counts-changelog",)
    assert planned.out_of_reach == ("s3a://bucket/fleet/in",)


def test_status_tells_the_lag_and_who_is_gone(odradek, cluster, layout):
    bootstrap = odradek.bootstrap_servers
    assert status(layout, cluster) is None
    record(layout, bootstrap)
    [query] = status(layout, cluster).queries
    assert (query.state, query.behind) == ("killed", None)
    cluster.create_topic("in", 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    began_s = time.time()
    for number in range(10):
        producer.produce("in", value=b"x", timestamp=int(1000 * (began_s - 100 + 10 * number)))
    assert producer.flush(60) == 0
    commit(bootstrap, "fleet.count", "in", 7)
    lock = AppLock(layout)
    known = status(layout, cluster)
    lock.release()
    [query] = known.queries
    assert (query.state, query.behind.records) == ("waiting", {"in": 3})
    assert 30 <= query.behind.seconds["in"] <= 30 + time.time() - began_s + 1
    assert known.runs_in is not None
    assert status(layout, None).queries[0].behind is None
    commit(bootstrap, "fleet.count", "in", 10)
    assert status(layout, cluster).queries[0].behind == Behind(records={"in": 0}, seconds={"in": 0.0})
    cluster.delete_topics(["in"])
    left = status(layout, cluster).queries[0].behind
    assert left is None or not left.records


def test_the_age_of_what_retention_has_deleted_is_that_of_the_next_record(odradek, cluster, layout):
    bootstrap = odradek.bootstrap_servers
    cluster.create_topic("in", 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for age_s in (500, 100):
        producer.produce("in", value=b"x", timestamp=int(1000 * (time.time() - age_s)))
    assert producer.flush(60) == 0
    commit(bootstrap, "fleet.count", "in", 0)
    cluster.delete_records({("in", 0): 1})
    record(layout, bootstrap)
    assert 100 <= status(layout, cluster).queries[0].behind.seconds["in"] < 500
    cluster.delete_records({("in", 0): 2})
    assert status(layout, cluster).queries[0].behind.seconds == {"in": 0.0}
