"""HTTP of a node: bound at the start, imported at the first connection, and readiness with reasons."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
import uvicorn
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from odradek.base.errors import KafkaError
from odradek.monitor.exposition import OPEN_METRICS, TEXT
from odradek.monitor.registry import Registry
from odradek.node.config import NodeConfig
from odradek.node.http import NodeHttp, bound
from odradek.node.listeners import Endpoint
from odradek.web.listening import CannotListen, listening
from odradek.web.process_metrics import measure_process

ANYWHERE = Endpoint(host="127.0.0.1", port=0)


@contextlib.asynccontextmanager
async def served(not_ready, registry=None):
    registry = registry or Registry(time.monotonic_ns)
    http = NodeHttp(bound(ANYWHERE, is_default=False), "127.0.0.1", not_ready, registry)
    http.begin()
    try:
        async with httpx.AsyncClient(base_url=http.url) as client:
            yield client
    finally:
        http.leave_loop()
        await asyncio.to_thread(http.stop)


def test_readyz_reports_why_a_node_is_not_ready():
    reasons = ["the node is starting"]

    async def scenario():
        async with served(lambda: reasons) as client:
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()) == (503, {"ready": False, "reasons": ["the node is starting"]})
            assert (await client.get("/healthz")).json() == {"healthy": True}
            reasons.clear()
            answer = await client.get("/readyz")
            assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
            assert (await client.get("/nothing")).json()["status"] == 404

    asyncio.run(scenario())


def test_healthz_fails_when_the_event_loop_is_stuck(monkeypatch):
    """The HTTP server has its own thread, so it can report that."""
    monkeypatch.setattr("odradek.node.http.ANSWERS_WITHIN_S", 0.01)
    monkeypatch.setattr("odradek.node.snapshots.REQUEST_WITHIN_S", 0.01)

    async def scenario():
        async with served(list) as client:
            assert (await client.get("/healthz")).status_code == 200
            url = str(client.base_url)
            stuck = httpx.get(f"{url}/healthz")  # noqa: ASYNC210 - this loop is blocked until the answer is there
            assert stuck.status_code == 503
            assert "did not answer" in stuck.json()["reasons"][0]
            stuck = httpx.get(f"{url}/metrics")  # noqa: ASYNC210
            assert stuck.status_code == 503
            assert "the event loop of this node gave no metrics" in stuck.json()["why"]

    asyncio.run(scenario())


def test_the_http_server_is_imported_at_the_first_connection():
    code = "import sys, odradek.node.process; print([m for m in ('starlette', 'uvicorn', 'h11') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_a_stop_without_any_request_closes_the_port():
    async def scenario():
        async with served(list) as client:
            port = client.base_url.port
        listening("127.0.0.1", port).close()

    asyncio.run(scenario())


async def healthy(client) -> bool:
    """Whether /healthz was answered; False if the connection was closed instead."""
    try:
        return (await client.get("/healthz", timeout=60)).json() == {"healthy": True}
    except httpx.TransportError:
        return False


def test_a_failed_start_is_logged_and_the_next_connection_tries_again(monkeypatch, caplog):
    monkeypatch.setattr("odradek.node.http.RETRY_PAUSE_S", 0)
    working, failures = uvicorn.Server.startup, [OSError("no descriptor is left")]

    async def startup(server, sockets=None):
        if failures:
            raise failures.pop()
        await working(server, sockets)

    monkeypatch.setattr(uvicorn.Server, "startup", startup)

    async def scenario():
        async with served(list) as client:
            assert not await healthy(client)
            assert "HTTP did not start, the next connection tries again: no descriptor is left" in caplog.text
            while not await healthy(client):
                pass
            port = client.base_url.port
        listening("127.0.0.1", port).close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_server_that_starts_too_late_is_replaced_and_keeps_no_port(monkeypatch, caplog):
    monkeypatch.setattr("odradek.node.http.RETRY_PAUSE_S", 0)
    monkeypatch.setattr("odradek.web.server.START_TIMEOUT_S", 0.01)
    working, may_start, servers = uvicorn.Server.startup, threading.Event(), []

    async def startup(server, sockets=None):
        servers.append(threading.current_thread())
        may_start.wait()
        await working(server, sockets)

    monkeypatch.setattr(uvicorn.Server, "startup", startup)

    async def scenario():
        async with served(list) as client:
            assert not await healthy(client)
            assert "HTTP did not start, the next connection tries again: the HTTP server did not start" in caplog.text
            monkeypatch.setattr("odradek.web.server.START_TIMEOUT_S", 60)
            may_start.set()
            while not await healthy(client):
                pass
            port = client.base_url.port
        for thread in servers:
            thread.join()
        assert len(servers) == 2
        listening("127.0.0.1", port).close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "127.0.0.1:9644"),
        ({"listeners": "PLAINTEXT://127.0.0.1:19093"}, "127.0.0.1:19645"),
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "127.0.0.1:0"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65500"}, "127.0.0.1:0"),
        ({"http.listener": "0.0.0.0:8080"}, "0.0.0.0:8080"),
        ({"http.listener": "127.0.0.1:0"}, "127.0.0.1:0"),
        ({"http.listener": ""}, "None"),
    ],
)
def test_the_http_address_follows_from_the_config(settings, expected):
    assert str(NodeConfig.parse(settings).http) == expected


def test_an_invalid_address_is_refused():
    with pytest.raises(KafkaError, match=r"http.listener: nowhere is not of the form host:port"):
        NodeConfig.parse({"http.listener": "nowhere"})


def test_a_default_port_that_is_taken_is_replaced_and_another_one_is_refused(caplog):
    with listening("127.0.0.1", 0) as taken:
        where = Endpoint(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(CannotListen):
            bound(where, is_default=False)
        with bound(where, is_default=True) as other:
            assert other.getsockname()[1] != where.port
    assert (
        f"a free port is used instead of the default: cannot listen on {where}: Address already in use" in caplog.text
    )


def test_the_reason_why_the_default_port_cannot_be_used_is_logged(caplog):
    with pytest.raises(CannotListen):
        bound(Endpoint(host="192.0.2.1", port=9644), is_default=True)
    assert "cannot listen on 192.0.2.1:9644: Cannot assign requested address" in caplog.text
    assert "taken" not in caplog.text


def test_a_broker_process_prints_where_it_serves_http(tmp_path: Path):
    command = [sys.executable, "-m", "odradek.cli", "up", "--no-console", "--data", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            up.stdout.readline()
            told = up.stdout.readline().split()
            assert httpx.get(told[-1]).json() == {"ready": True, "reasons": []}
        finally:
            up.terminate()
            up.wait(30)
    assert up.returncode == 0


def test_clients_that_send_nothing_delay_neither_other_requests_nor_the_stop():
    async def scenario():
        async with served(list) as client:
            where = ("127.0.0.1", client.base_url.port)
            silent = [await asyncio.open_connection(*where) for _ in range(20)]
            silent[0][1].write(b"GET /readyz HTTP/1.1\r\nHost: ")
            assert (await client.get("/readyz")).status_code == 200
        for _, writer in silent:
            writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_metrics_are_served_in_the_format_that_the_client_prefers():
    registry = Registry(time.monotonic_ns)
    measure_process(registry)

    async def scenario():
        async with served(list, registry) as client:
            answer = await client.get("/metrics")
            assert answer.headers["content-type"] == TEXT
            families = {family.name: family for family in parse_text(answer.text)}
            assert families["process_open_fds"].samples[0].value > 3
            assert 0 < families["process_start_time_seconds"].samples[0].value <= time.time()
            assert families["process_resident_memory_bytes"].samples[0].value > 10_000_000
            answer = await client.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
            assert answer.headers["content-type"] == OPEN_METRICS
            assert {family.name for family in parse_open_metrics(answer.text)} == {
                name.removesuffix("_total") for name in families
            }

    asyncio.run(scenario())
