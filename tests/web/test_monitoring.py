"""/metrics of a process that has no event loop of its own."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.base import limits
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Registry
from odradek.web.application import application
from odradek.web.monitoring import fresh_snapshot, monitoring_routes
from odradek.web.server import HttpServer

ROWS = Metric(name="rows_total", mbean="a:type=B", kind=Kind.METER, unit="rows", help="Rows.", labels=("query",))


def test_all_series_arrive_though_they_take_many_slices():
    registry = Registry(lambda: 0)
    many = 3 * limits.metric_readings_per_slice_max
    for number in range(many):
        registry.counter(ROWS, str(number)).count += number
    with HttpServer(application(monitoring_routes(lambda: fresh_snapshot(registry)))) as server:
        answer = httpx.get(f"{server.url}/metrics")
    rows = {family.name: family for family in text_string_to_metric_families(answer.text)}["rows"]
    assert {sample.labels["query"]: sample.value for sample in rows.samples} == {str(n): n for n in range(many)}


@pytest.mark.parametrize("path", ["metrics", "jolokia/read/java.lang:type=Runtime"])
def test_a_process_that_is_too_busy_for_a_snapshot_answers_503(path):
    @asynccontextmanager
    async def late():
        raise TimeoutError("the event loop is stuck")
        yield

    with HttpServer(application(monitoring_routes(late))) as server:
        answer = httpx.get(f"{server.url}/{path}")
    told = {"status": 503, "what": "there are no metrics now", "why": "the event loop is stuck"}
    assert (answer.status_code, answer.json()) == (503, told)


def test_only_named_metrics_are_answered():
    registry = Registry(lambda: 0)
    other = Metric(name="batches_total", mbean="a:type=C", kind=Kind.METER, unit="batches", help="Batches.")
    registry.counter(ROWS, "a").count += 1
    registry.counter(other).count += 1
    with HttpServer(application(monitoring_routes(lambda: fresh_snapshot(registry)))) as server:
        text = httpx.get(f"{server.url}/metrics", params={"name[]": ["batches_total", "nothing"]}).text
    assert [family.name for family in text_string_to_metric_families(text)] == ["batches"]
