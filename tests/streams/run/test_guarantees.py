"""Exactly once or not: what the cluster, the settings and the checkpoints allow, before Spark starts."""

import json
import logging

import pytest

from odradek.pipeline.layout import Layout, markers_of
from odradek.spark.batch_markers import Marker, MarkerTopic
from odradek.spark.sink_options import sink_options
from odradek.spark.transactional_writer import Attempt, TransactionalWriter
from odradek.streams import App, PipelineError
from odradek.streams.run import guarantees
from odradek.streams.run.guarantees import check_checkpoints, decided, deciding


@pytest.fixture(autouse=True)
def _nothing_is_proven(monkeypatch):
    monkeypatch.setattr(guarantees, "_proven", set())


def application(broker, **settings):
    app = App("shop", broker.bootstrap_servers, **settings)
    app.stream("orders").to("copies")
    return app.application


def test_exactly_once_is_the_default(odradek):
    app = application(odradek)
    assert decided(app, app.settings).delivery == "exactly-once"


def test_cluster_that_refuses_transactions_gets_records_at_least_once(odradek, caplog):
    odradek.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=9)
    app = application(odradek)
    with caplog.at_level(logging.WARNING):
        assert decided(app, app.settings).delivery == "at-least-once"
    [line] = caplog.messages
    assert line.startswith("shop: topics are written at least once, not exactly once: this client is not authorized")


def test_exactly_once_that_was_asked_for_is_refused_there(odradek):
    odradek.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=9)
    app = application(odradek, delivery="exactly-once")
    with pytest.raises(PipelineError, match="shop cannot write exactly once"):
        decided(app, app.settings)


def test_producer_without_idempotence_writes_at_least_once(odradek):
    app = application(odradek, config={"acks": "1"})
    assert decided(app, app.settings).delivery == "at-least-once"


@pytest.mark.parametrize(("place", "delivery"), [("s3a://b/streams", "at-least-once"), ("file:///s", "exactly-once")])
def test_checkpoints_that_only_spark_can_read_mean_at_least_once(odradek, place, delivery):
    app = application(odradek, state_dir=place)
    assert decided(app, app.settings).delivery == delivery


def test_state_directory_may_be_the_url_of_a_local_one(tmp_path):
    settings = App("shop", state_dir=f"file://{tmp_path}").application.settings.located()
    assert settings.state_dir == str(tmp_path)
    assert Layout(f"file://{tmp_path}", "shop").folder == tmp_path / "shop"


def test_markers_that_may_not_be_read_mean_at_least_once_and_are_named(odradek, caplog):
    odradek.fail("CreateTopics", "TOPIC_AUTHORIZATION_FAILED", times=None)
    app = application(odradek)
    with caplog.at_level(logging.WARNING):
        assert deciding(app, app.queries(), app.settings).result(60).delivery == "at-least-once"
    assert "the topic of markers 'shop.orders-markers' cannot be used" in caplog.text
    assert "Create (unless it exists), Describe, Read and Write" in caplog.text


@pytest.fixture
def written(odradek, tmp_path):
    """An application that has written micro-batch 3, with the checkpoint of it."""
    app = application(odradek, state_dir=str(tmp_path))
    layout = Layout(str(tmp_path), "shop")
    checkpoint = tmp_path / "shop" / "orders"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "3").touch()
    (checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    config = sink_options({"kafka.bootstrap.servers": odradek.bootstrap_servers, "topic": "copies"}).config
    markers = MarkerTopic(markers_of("shop.orders"))
    writer = TransactionalWriter(config, markers, "shop.orders.0.0")
    attempt = Attempt(sink="shop.orders.0", task=0, batch=3, query_id="q")
    assert writer.write(attempt, [])
    assert markers.all(config, "shop.orders.") == {"shop.orders.0.0": Marker(batch=3, query_id="q")}
    return app, layout, checkpoint


def check(app, layout):
    check_checkpoints(layout, app.queries(), app.settings.over(delivery="exactly-once"))


def test_checkpoint_of_the_results_is_accepted(written):
    app, layout, _ = written
    check(app, layout)


def test_deleted_checkpoint_is_refused_before_the_start(written):
    app, layout, checkpoint = written
    (checkpoint / "metadata").unlink()
    with pytest.raises(PipelineError, match=r"(?s)was deleted or replaced.*odradek streams reset shop"):
        check(app, layout)


def test_checkpoint_that_is_one_micro_batch_too_old_is_refused_before_the_start(written):
    app, layout, checkpoint = written
    (checkpoint / "offsets" / "3").rename(checkpoint / "offsets" / "2")
    with pytest.raises(PipelineError, match=r"of micro-batch 3, and the checkpoint in .* ends at 2"):
        check(app, layout)
