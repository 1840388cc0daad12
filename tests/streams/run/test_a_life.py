"""A real application on Spark through its life: run, looked at, stopped, reset, run again."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AlreadyRunning
from odradek.pipeline.status import status
from odradek.streams import App, F, PipelineError
from odradek.streams.run.reset import carry_out, plan_reset


def produce(bootstrap: str, drivers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for driver in drivers:
        producer.produce("positions", value=json.dumps({"driver": driver}))
    assert producer.flush(60) == 0


def counts(running) -> dict[str, int]:
    view = running.view("events")
    view.wait_caught_up()
    return {row["driver"]: row["n"] for row in (json.loads(value) for _, value in view.scan())}


def test_run_look_stop_reset_and_run_again(spark, odradek, tmp_path):
    bootstrap = odradek.bootstrap_servers
    cluster = Admin(bootstrap)
    cluster.create_topic("positions", 1)
    app = App("fleet", bootstrap, state_dir=str(tmp_path))
    layout = Layout(str(tmp_path), "fleet")
    app.stream("positions", schema="driver string").group_by("driver").agg(n=F.count("*")).materialize("events")
    produce(bootstrap, "aab")
    with app.start(session=spark) as running:
        running.await_all_processed()
        assert counts(running) == {"a": 2, "b": 1}
        with pytest.raises(AlreadyRunning):
            app.start(session=spark)
    stopped = status(layout, cluster)
    [query] = stopped.queries
    assert (stopped.runs_in, query.state, query.record.state_rows) == (None, "stopped", 2)
    assert query.record.batch_ms >= query.record.execution_ms > 0
    assert query.record.planning_ms is not None
    assert query.record.state_bytes > 0
    assert query.record.late_rows == 0
    planned = plan_reset(layout, cluster)
    assert planned.topics == ("fleet-events-changelog", "fleet.positions-markers")
    assert [path.name for path in planned.checkpoints] == ["positions"]
    assert planned.groups == ("fleet.positions",)
    carry_out(planned, cluster)
    produce(bootstrap, "c")
    with app.start(session=spark, trigger_available_now=True) as running:
        assert counts(running) == {"a": 2, "b": 1, "c": 1}
    other = App("fleet", bootstrap, state_dir=str(tmp_path))
    other.stream("positions", schema="driver string").group_by("driver").agg(n=F.max("driver")).materialize("events")
    with pytest.raises(PipelineError, match=r"aggregate: count\(\*\) → aggregate: max\(driver\)"):
        other.start(session=spark)
