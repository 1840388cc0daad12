"""The metrics of an application, from Spark's reports of its micro-batches and from its cluster."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics

from odradek.client.admin import Admin
from odradek.monitor.exposition import OPEN_METRICS, exposition
from odradek.monitor.registry import Registry
from odradek.pipeline import metering
from odradek.pipeline.layout import Layout
from odradek.pipeline.metering import Metering
from odradek.pipeline.progress_reports import batches_after
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import StateFigures, Tenure, recorded
from support.waiting import wait_until

PATIENCE_S = 60.0


def report(number, rows, took_ms=100, late=0):
    operators = [{"numRowsTotal": 1, "memoryUsedBytes": 10, "numRowsDroppedByWatermark": late}] if late else []
    return {
        "id": "00000000-0000-0000-0000-000000000000",
        "runId": "00000000-0000-0000-0000-000000000000",
        "name": "fleet.count",
        "batchId": number,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": rows,
        "inputRowsPerSecond": 50.0,
        "processedRowsPerSecond": 100.0,
        "batchDuration": took_ms,
        "durationMs": {"queryPlanning": 20, "addBatch": 70},
        "stateOperators": operators,
        "sources": [],
        "sink": {"description": "noop", "numOutputRows": 0},
    }


class Report:
    def __init__(self, content):
        self._content = content

    def json(self):
        return json.dumps(self._content)


class Query:
    """A fake of a Spark query: the reports are what it would have made."""

    name = "count"
    isActive = True  # noqa: N815 Spark's name
    status = {"isTriggerActive": True}  # noqa: RUF012

    def __init__(self, figures=None):
        self.reports = []
        self.asked = 0
        self._figures = figures

    @property
    def spark(self):
        return self

    @property
    def lastProgress(self):  # noqa: N802 Spark's name
        return self.reports[-1] if self.reports else None

    @property
    def _jsq(self):
        return self

    def recentProgress(self):  # noqa: N802 Spark's name
        self.asked += 1
        return [Report(each) for each in self.reports[-100:]]

    def problem(self):
        return None

    def figures(self):
        return self._figures


@pytest.fixture
def registry():
    return Registry(time.monotonic_ns)


@pytest.fixture
def layout(tmp_path):
    return Layout(str(tmp_path), "fleet")


def samples(registry):
    text = "".join(exposition(registry.snapshot(), OPEN_METRICS))
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in parse_open_metrics(text)
        for sample in family.samples
    }


def test_each_micro_batch_with_rows_is_found_once():
    query, last, found = Query(), None, []

    def look():
        nonlocal last
        batches, last = batches_after(query, last, query.lastProgress)
        found.extend(batch.number for batch in batches)

    query.reports += [report(0, 5), report(1, 5), report(2, 5)]
    look()
    look()
    assert (found, query.asked) == ([0, 1, 2], 1)
    query.reports.append(report(3, 5))
    look()
    assert (found, query.asked) == ([0, 1, 2, 3], 1), "the last report is enough"
    query.reports.append(report(4, 0))  # idle: 4 has not run yet
    look()
    query.reports += [report(4, 5), report(5, 5)]
    look()
    assert found == [0, 1, 2, 3, 4, 5]
    query.reports += [report(6, 0), report(7, 0), report(8, 0)]  # without rows, for timers
    look()
    query.asked = 0
    look()
    assert (found, query.asked) == ([0, 1, 2, 3, 4, 5], 0)


def test_metrics_of_a_query(registry, layout):
    meter = Metering(registry, layout, [])
    query = Query(StateFigures(rows=9, bytes=4096, late_rows=2))
    query.reports = [report(0, 5, 100), report(1, 7, 300)]
    meter.see((recorded(query, None, meter), QueryRecord(name="join", state="starting")), 3)
    found = samples(registry)
    assert found["kafka_streams_stream_thread_metrics_process_total", "fleet.count"] == 12
    assert found["kafka_streams_stream_task_metrics_dropped_records_total", "fleet.count"] == 2
    assert found["kafka_streams_stream_metrics_state_info", "CREATED", "fleet"] == 1
    assert found["kafka_streams_stream_metrics_alive_stream_threads", "fleet"] == 1
    assert found["odradek_streams_query_state", "count", "fleet", "working"] == 1
    assert found["odradek_streams_query_batches_total", "count", "fleet"] == 2
    assert found["odradek_streams_query_batchtimems_sum", "count", "fleet"] == 400
    assert found["odradek_streams_query_planningtimems_sum", "count", "fleet"] == 40
    assert found["odradek_streams_query_executiontimems_count", "count", "fleet"] == 2
    assert found["odradek_streams_query_inputrowspersecond", "count", "fleet"] == 50
    assert found["odradek_streams_query_staterows", "count", "fleet"] == 9
    assert found["odradek_streams_query_statebytes", "count", "fleet"] == 4096
    assert found["odradek_streams_query_keepsup", "count", "fleet"] == 1
    assert found["odradek_streams_application_restarts_total", "fleet"] == 3


def test_rows_that_sparks_operators_drop_are_added_up(registry, layout):
    meter = Metering(registry, layout, [])
    query = Query()
    query.reports = [report(0, 5, late=2), report(1, 5, late=3)]
    meter.see((recorded(query, None, meter),), 0)
    assert samples(registry)["kafka_streams_stream_task_metrics_dropped_records_total", "fleet.count"] == 5


def test_restarts_are_counted_in_the_state_directory(registry, layout):
    for restarts in range(3):
        tenure = Tenure(layout, "127.0.0.1:1", [], meter=Metering(registry := Registry(time.monotonic_ns), layout, []))
        tenure.end()
        assert samples(registry)["odradek_streams_application_restarts_total", "fleet"] == restarts


def test_lag_and_dead_letters_are_measured_for_the_next_scrape(registry, layout, odradek, monkeypatch):
    monkeypatch.setattr(metering, "MEASURE_EVERY_S", 0.01)
    bootstrap = odradek.bootstrap_servers
    for topic in ("in", "in.dead"):
        Admin(bootstrap).create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    hour_ago_ms = int((time.time() - 3600) * 1000)
    for _ in range(4):
        producer.produce("in", b"x", timestamp=hour_ago_ms)
    producer.produce("in.dead", b"x")
    producer.flush()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "fleet.count"})
    consumer.commit(offsets=[TopicPartition("in", 0, 1)], asynchronous=False)
    consumer.close()
    meter = Metering(registry, layout, ["in.dead"])
    meter.see((QueryRecord(name="count", state="waiting"),), 0)
    behind = "odradek_streams_query_secondsbehind", "count", "fleet"
    with meter.measuring_lag(bootstrap, {}):
        wait_until(lambda: behind in samples(registry), "the lag")
        found = samples(registry)
    assert 3600 <= found[behind] < 7200
    assert found["odradek_streams_query_recordsbehind", "count", "fleet", "in"] == 3
    assert found["odradek_streams_application_deadletters_total", "fleet", "in.dead"] == 1
    monkeypatch.setattr(metering, "LAG_VALID_S", 0)
    assert behind not in samples(registry), "an old measurement is not shown"


def test_dead_letters_count_the_marker_of_a_transaction_as_well(registry, layout, odradek, monkeypatch):
    monkeypatch.setattr(metering, "MEASURE_EVERY_S", 0.01)
    bootstrap = odradek.bootstrap_servers
    Admin(bootstrap).create_topic("in.dead", 1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "task"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("in.dead", b"x")
    producer.commit_transaction()
    letters = "odradek_streams_application_deadletters_total", "fleet", "in.dead"
    meter = Metering(registry, layout, ["in.dead"])
    with meter.measuring_lag(bootstrap, {}):
        wait_until(lambda: samples(registry).get(letters) == 2, "the record and the marker")
