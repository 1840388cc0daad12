"""Pushes to real sockets: an OTLP receiver over HTTP, DogStatsD over UDP and over a Unix socket, and no collector."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics

from odradek.base import limits
from odradek.export import pushing
from odradek.export.destinations import (
    BadDestination,
    Destinations,
    Identity,
    parse_dogstatsd,
    parse_labels,
    parse_otlp,
)
from odradek.export.exporting import ProcessMetrics
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Registry
from support.waiting import wait_until

SENT = Metric(name="sent_total", mbean="a:type=B", kind=Kind.COUNTER, unit="bytes", help="Text.", labels=("topic",))
IDENTITY = Identity(service="billing", instance="1")
PATIENCE_S = 60.0
SOON_S = 0.05


@pytest.fixture
def registry():
    registry = Registry(time.monotonic_ns)
    registry.counter(SENT, "orders").count = 7
    return registry


@contextmanager
def otlp_receiver(status=200, answers=()):
    """Requests as (path, headers, parsed body). The first requests get `answers`, all others an empty body."""
    received = Queue()
    remaining = iter(answers)

    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            received.put((self.path, dict(self.headers), ExportMetricsServiceRequest.FromString(body)))
            answer = next(remaining, b"")
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pushing_to(registry, **destinations):
    wanted = Destinations(every_s=SOON_S, labels={"env": "test"}, **destinations)
    return ProcessMetrics(registry, IDENTITY, address=None, destinations=wanted)


def sent_in(request):
    metrics = {each.name: each for each in request.resource_metrics[0].scope_metrics[0].metrics}
    return metrics["sent"].sum.data_points[0].as_int


def test_otlp_requests_repeat_with_cumulative_counters(registry, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
    with otlp_receiver() as (url, received), pushing_to(registry, otlp=parse_otlp(url)):
        path, headers, request = received.get(timeout=PATIENCE_S)
        assert path == "/v1/metrics"
        assert headers["content-type"] == "application/x-protobuf"
        assert headers["api-key"] == "a secret"
        resource = request.resource_metrics[0].resource
        assert {each.key: each.value.string_value for each in resource.attributes} == {
            "service.name": "billing",
            "service.instance.id": "1",
            "env": "test",
        }
        assert sent_in(request) == 7
        assert sent_in(received.get(timeout=PATIENCE_S)[2]) == 7


def test_last_push_has_the_last_counts(registry):
    with otlp_receiver() as (url, received):
        wanted = Destinations(every_s=3600, otlp=parse_otlp(url))
        with ProcessMetrics(registry, IDENTITY, address=None, destinations=wanted):
            registry.counter(SENT, "orders").count = 9
        assert sent_in(received.get(timeout=PATIENCE_S)[2]) == 9


def added(datagrams, enough):
    """Sums up the counter until it is `enough`."""
    total = 0
    while total < enough:
        for line in datagrams.recv(65536).decode().split("\n"):
            if line.startswith("sent_total:"):
                value, kind, tags = line.removeprefix("sent_total:").split("|")
                assert kind == "c"
                assert set(tags.removeprefix("#").split(",")) == {
                    "topic:orders",
                    "service:billing",
                    "instance:1",
                    "env:test",
                }
                total += int(value)
    return total


def test_dogstatsd_over_udp(registry):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(PATIENCE_S)
        address = parse_dogstatsd(f"127.0.0.1:{agent.getsockname()[1]}")
        with pushing_to(registry, dogstatsd=address):
            assert added(agent, 7) == 7
            registry.counter(SENT, "orders").count += 5
            assert added(agent, 5) == 5


def test_dogstatsd_over_a_unix_socket_that_is_created_later(registry, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(pushing, "BACKOFF_MAX_S", SOON_S)
    path = tmp_path / "agent.sock"
    with pushing_to(registry, dogstatsd=parse_dogstatsd(f"unix://{path}")):
        wait_until(lambda: "are not pushed" in caplog.text)
        registry.counter(SENT, "orders").count += 1
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
            agent.bind(str(path))
            agent.settimeout(PATIENCE_S)
            assert added(agent, 8) == 8, "nothing was lost while there was no agent"
            wait_until(lambda: "pushed to" in caplog.text and "again" in caplog.text)


@pytest.mark.parametrize("status", [400, 503])
def test_collector_that_refuses_is_logged_once(registry, caplog, monkeypatch, status):
    monkeypatch.setattr(pushing, "BACKOFF_MAX_S", SOON_S)
    with otlp_receiver(status) as (url, received), pushing_to(registry, otlp=parse_otlp(url)):
        for _ in range(3):
            received.get(timeout=PATIENCE_S)
    assert [record.getMessage() for record in caplog.records].count(
        f"metrics are not pushed to {url}/v1/metrics: HTTP {status}. Retrying at longer intervals"
    ) == 1
    assert len(caplog.records) == 1


def partial(rejected, message):
    told = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
    return ExportMetricsServiceResponse(partial_success=told).SerializeToString()


def test_points_that_a_collector_rejects_are_logged_once_per_change(registry, caplog):
    caplog.set_level("INFO", "odradek.export")
    kept_out = partial(3, "metrics named sent are kept out")
    warned = partial(0, "use the new address")
    answers = (kept_out, kept_out, warned, warned, b"\xff\xff", b"", b"")
    with otlp_receiver(answers=answers) as (url, received), pushing_to(registry, otlp=parse_otlp(url)):
        for _ in range(len(answers) + 1):
            received.get(timeout=PATIENCE_S)
    address = f"{url}/v1/metrics"
    assert [record.getMessage() for record in caplog.records] == [
        f"{address} rejected 3 points of a push: metrics named sent are kept out",
        f"{address} took a push with a warning: use the new address",
        f"{address} takes pushes without complaints again",
    ]


def test_pauses_grow_while_a_collector_is_dead(registry):
    pusher = pushing.Pusher(None, "", lambda: nullcontext(registry.snapshot()), 10.0)
    pauses = []
    for pusher._failures in range(5):
        pauses.append(pusher._pause_s())
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0]


def test_metrics_are_served_and_another_port_is_used_when_it_is_taken(registry):
    with ProcessMetrics(registry, IDENTITY, address=("127.0.0.1", 0)) as first:
        port = int(first.url.removesuffix("/metrics").rpartition(":")[2])
        with ProcessMetrics(registry, IDENTITY, address=("127.0.0.1", port)) as second:
            assert second.url != first.url
            answer = httpx.get(second.url, headers={"accept": "application/openmetrics-text"})
            families = {family.name: family for family in parse_open_metrics(answer.text)}
            assert families["sent"].samples[0].value == 7
        with (
            pytest.raises(OSError, match="cannot listen"),
            ProcessMetrics(registry, IDENTITY, address=("127.0.0.1", port), is_default=False),
        ):
            pass


def test_addresses_are_checked():
    assert str(parse_otlp("http://localhost")) == "http://localhost:4318/v1/metrics"
    assert str(parse_otlp("https://otel.example/custom")) == "https://otel.example:443/custom"
    assert str(parse_dogstatsd("localhost")) == "localhost:8125"
    assert str(parse_dogstatsd("unix:///run/agent.sock")) == "unix:///run/agent.sock"
    assert parse_labels(["env=prod"]) == {"env": "prod"}
    for parse, wrong in [
        (parse_otlp, "localhost:4318"),
        (parse_otlp, "http://localhost:x"),
        (parse_otlp, "http://a..b:4318"),
        (parse_dogstatsd, "a..b:8125"),
        (parse_dogstatsd, "localhost:0"),
        (parse_dogstatsd, "unix://relative"),
        (parse_labels, ["env"]),
    ]:
        with pytest.raises(BadDestination):
            parse(wrong)


def test_datagrams_are_not_larger_than_agents_read():
    assert limits.dogstatsd_udp_bytes_max == 1432
    assert limits.dogstatsd_unix_bytes_max == 8192
