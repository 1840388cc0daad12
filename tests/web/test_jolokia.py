"""/jolokia over HTTP."""

from __future__ import annotations

import httpx
import pytest

from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Registry
from odradek.web.application import application
from odradek.web.monitoring import fresh_snapshot, monitoring_routes
from odradek.web.server import HttpServer

ROWS = Metric(name="rows_total", mbean="a:type=B", kind=Kind.METER, unit="rows", help="Rows.", labels=("query",))


@pytest.fixture(scope="module")
def served():
    registry = Registry(lambda: 0)
    registry.counter(ROWS, "a/b").count += 4
    taken = []

    def snapshot():
        taken.append(1)
        return fresh_snapshot(registry)

    with HttpServer(application(monitoring_routes(snapshot))) as server:
        yield f"{server.url}/jolokia", taken


def test_get_and_post(served):
    url, _ = served
    answer = httpx.get(f'{url}/read/a:type=B,query="a!/b"/Count')
    assert answer.json()["value"] == 4
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    for path in ("", "/"):
        answers = httpx.post(
            url + path, json=[{"type": "search"}, {"type": "exec", "mbean": "a:b=c", "operation": "x"}]
        )
        found, refused = answers.json()
        assert 'a:type=B,query="a/b"' in found["value"]
        assert refused["status"] == 403
    assert httpx.get(url, params={"p": "search/a:*"}).json()["value"] == ['a:type=B,query="a/b"']


def test_a_bad_request_and_version_take_no_snapshot(served):
    url, taken = served
    before = len(taken)
    refused = httpx.get(f"{url}/read/bad")
    assert (refused.status_code, refused.text) == (400, "400 (Bad Request)\n\nKey properties cannot be empty\n")
    assert httpx.post(url, content=b"[").status_code == 400
    assert httpx.get(f"{url}/version").json()["status"] == 200
    assert len(taken) == before
