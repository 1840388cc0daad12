"""Alerts from a real scrape to a real webhook and a real command, across restarts."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from odradek.monitor.lag.settings import LagSettings
from odradek.monitor.registry import Registry
from odradek.watch.alerting import Alerting, AlertSettings
from odradek.watch.settings import BadSettings, configured
from odradek.watch.watched_cluster import ClusterSettings, WatchedCluster


class Server(ThreadingHTTPServer):
    """Gives one sample to scrapes, and takes messages of alerts. A message is refused while `refusals` remain."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.value = 0
        self.scrapes = threading.Semaphore(0)
        self.refusals = 0
        # Answers that are not HTTP.
        self.garbage = 0
        self.redirects = 0
        self.messages: queue.Queue[dict] = queue.Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def message(self) -> tuple[str, str]:
        told = self.messages.get(timeout=60)
        return told["status"], told["alerts"][0]["labels"]["alertname"]

    def await_scrapes(self, count: int) -> None:
        for _ in range(count):
            assert self.scrapes.acquire(timeout=60)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def is_garbage(self) -> bool:
        if self.server.garbage <= 0:
            return False
        self.server.garbage -= 1
        self.wfile.write(b"nonsense\r\n\r\n")
        self.close_connection = True
        return True

    def do_GET(self) -> None:
        if self.is_garbage():
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f'queue_length{{queue="a"}} {self.server.value}\n'.encode())
        self.server.scrapes.release()

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.is_garbage():
            return
        if self.server.redirects > 0:
            self.server.redirects -= 1
            self.send_response(302)
            self.send_header("Location", self.server.url)
            self.end_headers()
            return
        is_refused = self.server.refusals > 0
        self.server.refusals -= is_refused
        self.send_response(503 if is_refused else 200)
        self.end_headers()
        if not is_refused:
            self.server.messages.put(told)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def settings(tmp_path: Path, server: Server, more: str = "") -> AlertSettings:
    path = tmp_path / "monitor.toml"
    path.write_text(f"""
        [alerts]
        every = 1
        state = "{tmp_path / "alerts.json"}"
        [scrape.app]
        url = "{server.url}/metrics"
        [webhook.team]
        url = "{server.url}/alerts"
        [[alert]]
        name = "QueueTooLong"
        metric = "queue_length"
        above = 10
        send = ["team"]
        {more}
    """)
    return read(path).alerts


def read(path: Path):
    cluster = ClusterSettings(name="none", servers="127.0.0.1:1", offset_refresh_s=10, topic_refresh_s=60, client={})
    return configured(path, cluster, None, is_named=False)


@pytest.fixture
def alerting(tmp_path, server) -> Iterator:
    running: list[Alerting] = []

    def start(more: str = "") -> Alerting:
        alerting = Alerting(settings(tmp_path, server, more), Registry(time.monotonic_ns), ())
        alerting.start()
        running.append(alerting)
        return alerting

    yield start
    for each in running:
        each.stop()


def test_one_message_when_an_alert_opens_and_one_when_it_closes(server, alerting):
    server.value = 11
    alerting()
    assert server.message() == ("firing", "QueueTooLong")
    server.await_scrapes(3)
    server.value = 10
    assert server.message() == ("resolved", "QueueTooLong")
    assert server.messages.empty()


def test_restarted_monitor_does_not_open_an_alert_again_and_closes_it(server, alerting):
    server.value = 11
    first = alerting()
    assert server.message() == ("firing", "QueueTooLong")
    first.stop()
    alerting()
    server.await_scrapes(3)
    assert server.messages.empty()
    server.value = 0
    assert server.message() == ("resolved", "QueueTooLong")


def test_message_that_could_not_be_delivered_is_sent_after_a_restart(server, alerting):
    server.value, server.refusals = 11, 1_000_000
    first = alerting()
    server.await_scrapes(3)
    first.stop()
    server.refusals = 0
    alerting()
    assert server.message() == ("firing", "QueueTooLong")


def test_a_source_or_webhook_that_does_not_speak_http_is_asked_again(server, alerting):
    server.value, server.garbage = 11, 3
    alerting()
    assert server.message() == ("firing", "QueueTooLong")


def test_a_redirect_of_a_webhook_is_not_taken_for_a_delivery(server, alerting):
    server.value, server.redirects = 11, 1
    alerting()
    assert server.message() == ("firing", "QueueTooLong")


def test_command_gets_the_message_on_standard_input(server, alerting, tmp_path):
    out = tmp_path / "said"
    program = f"import os, sys; open({str(out)!r}, 'w').write(os.environ['ODRADEK_ALERT_STATE'] + sys.stdin.read())"
    server.value = 11
    alerting(f"""
        [[alert]]
        name = "Again"
        metric = "queue_length"
        above = 5
        send = ["script"]
        [command.script]
        run = [{json.dumps(sys.executable)}, "-c", {json.dumps(program)}]
    """)
    assert server.message() == ("firing", "QueueTooLong")
    while not (out.exists() and out.read_text().endswith("}")):
        server.await_scrapes(1)
    state, _, told = out.read_text().partition("{")
    assert state == "open"
    assert json.loads("{" + told)["alerts"][0]["labels"]["alertname"] == "Again"


def test_whether_a_cluster_is_up_is_not_known_before_the_monitor_has_read_it(server, tmp_path):
    cluster = WatchedCluster(ClusterSettings(name="far", servers="127.0.0.1:1"), LagSettings())
    down = """
        [[alert]]
        name = "Down"
        metric = "up"
        below = 1
        send = ["team"]
    """
    alerting = Alerting(settings(tmp_path, server, down), Registry(time.monotonic_ns), [cluster])
    alerting.start()
    try:
        server.await_scrapes(3)
        assert server.messages.empty()
        cluster.problem = "no answer"
        assert server.message() == ("firing", "Down")
    finally:
        alerting.stop()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("colour = 1", r"alert\[0\]: unknown key colour"),
        ('status = "ERROR"', r"alert\[0\].status: 'ERROR' is not one of WARN, ERR"),
        ('[[alert]]\nname = "x"\ngroup = "("\nsend = ["team"]', r"alert 'x'.group: '\(' is not a regular expression"),
        ("[alerting]", "monitor.toml: unknown key alerting"),
        ("[alertt]", r'monitor.toml: unknown key alertt. Did you mean "alert"\?'),
        ("[lag]\nintervall = 9", r'lag: unknown key intervall. Did you mean "intervals"\?'),
        (
            '[cluster.c]\nservers = ["a"]\noffset-refesh = 9',
            r'unknown key offset-refesh. Did you mean "offset-',
        ),
        ("for = -1", r"alert\[0\].for: Expected `int` >= 0"),
        ("[webhook.other]", r"webhook\[...\]: the key url is missing"),
        ('[webhook.other]\nurl = "http://a..b/"', "http://a..b/' has an invalid host: it has nothing"),
        ("below = 3", "either above or below"),
        ('[[alert]]\nname = "x"\nmetric = "m"\nabove = 1\nsend = ["nobody"]', "no webhook and no command called"),
        ('[[alert]]\nname = "x"\nsend = ["team"]', "either group or metric"),
        ('[[alert]]\nname = "QueueTooLong"\ngroup = "g"\nsend = ["team"]', "two alerts"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, server, more, told):
    with pytest.raises(BadSettings, match=told):
        settings(tmp_path, server, more)
