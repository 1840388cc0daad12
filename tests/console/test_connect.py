"""The pages of connectors over HTTP, against a real service: what they show, what they change, and what is refused."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from console.snapshots import healthy
from odradek.client.admin import Admin
from odradek.console.collecting.history import History
from odradek.console.connectors import api
from odradek.console.connectors.api import Silent, services
from odradek.console.connectors.reading import RECOVERED_S, Reader
from odradek.console.connectors.seen import Connect, connect_of
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.connect_service import Service, connect_service, eventually
from support.consoles import HTML, Running
from support.http_server import Answer, HttpServer, Request, http_server
from support.topics import Records
from support.waiting import wait_until

HOSTILE = "<img src=x onerror=alert(1)>"
TABS = ("tasks", "config", "offsets", "letters", "logs", "manage")
BAD_SINK = {
    "connector.class": "files-sink",
    "topics": "made",
    "path": f"/dev/null/{HOSTILE}",
    "restart.attempts.max": "0",
    "consumer.override.ssl.key.password": "hunter2",
}


@pytest.fixture(scope="module")
def service(broker: Embedded) -> Iterator[Service]:
    with connect_service(broker.bootstrap_servers) as service:
        for topic in ("made", "odd", "numbers", "numbers-dlq"):  # this broker creates none by itself
            Admin(broker.bootstrap_servers).create_topic(topic, 1)
        service.create("made", connector_class="datagen", topic="made", rate=200)
        yield service


@pytest.fixture(scope="module")
def pages(broker: Embedded, service: Service) -> Iterator[Running]:
    settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, connect=(service.url,))
    with running(settings) as (console, server):
        wait_until(lambda: connect_of(console.snapshot), "the console has asked the service")
        yield Running(console, server.url)


@contextmanager
def failing(service: Service, name: str) -> Iterator[None]:
    """A sink whose directory cannot be made: the cause is in its trace."""
    assert service.http.post("/connectors", json={"name": name, "config": BAD_SINK}).status_code == 201
    eventually(lambda: service.states(name) == ["FAILED"])
    yield
    service.http.delete(f"/connectors/{name}")


def place(service: Service, name: str) -> str:
    return f"/connect/{service.url.removeprefix('http://')}/{name}"


def act(pages: Running, service: Service, name: str, action: str, **more: str) -> str:
    answer = pages.post(place(service, name), form=place(service, name), action=action, **more)
    return answer.text


def states(service: Service, name: str) -> str:
    return service.http.get(f"/connectors/{name}/status").json()["connector"]["state"]


def test_connectors_are_listed_and_each_has_its_pages(pages, service):
    wait_until(lambda: 'class="name connector"' in pages.page("/connect"), "the list has the connector")
    assert " of 1 connector<" in pages.page("/connect?show=sources&q=datagen")
    assert "No connector matches" in pages.page("/connect?show=sinks")
    for tab in TABS:
        assert "Restart" in pages.page(f"{place(service, 'made')}?tab={tab}")
    wait_until(lambda: "generator: 0" in pages.page(f"{place(service, 'made')}?tab=offsets"), "it has offsets")
    assert 'href="/topics/made"' in pages.page(f"{place(service, 'made')}?tab=offsets")
    wait_until(lambda: connect_of(pages.console.snapshot).connectors[0].figures.written > 0, "its records are counted")
    assert pages.console.trend(f"connector/{service.url.removeprefix('http://')}/made")


def test_what_does_not_exist_is_not_found(pages, service):
    assert pages.get(place(service, "missing"), accept="text/html").status_code == 404
    assert pages.get("/connect/127.0.0.1:1/made", accept="text/html").status_code == 404


def test_a_failed_connector_is_the_verdict_and_its_trace_is_text(pages, service):
    with failing(service, "doomed"):
        wait_until(lambda: "Connector doomed has failed" in pages.page("/"), "the overview names it")
        assert "NotADirectoryError" in pages.page("/")
        page = pages.page(place(service, "doomed"))
        assert "Why task 0 failed" in page
        assert HOSTILE not in page
        assert "&lt;img src=x" in page
        for tab in TABS:
            assert "hunter2" not in pages.page(f"{place(service, 'doomed')}?tab={tab}")
        before = service.steward.statuses.tasks["doomed"][0].generation
        assert "is started again" in act(pages, service, "doomed", "restart-failed")
        eventually(lambda: service.states("doomed") == ["FAILED"])
        assert service.steward.statuses.tasks["doomed"][0].generation >= before
        assert "Task 0 of doomed is started again" in act(pages, service, "doomed", "restart-task", task="0")
    wait_until(lambda: "doomed" not in pages.page("/connect"), "the list forgets it")
    wait_until(lambda: "Connector doomed was deleted" in pages.page("/recent"), "events tell of it")


def test_a_connector_is_paused_stopped_reset_and_deleted(pages, service):
    name = "odd name?"
    service.http.post(
        "/connectors", json={"name": name, "config": {"connector.class": "datagen", "topic": "odd", "rate": "100"}}
    )
    quoted = "odd%20name%3F"
    eventually(lambda: service.states(quoted) == ["RUNNING"])
    eventually(lambda: service.http.get(f"/connectors/{quoted}/offsets").json()["offsets"])
    wait_until(lambda: "odd%20name%3F" in pages.page("/connect"), "the list has it")
    for action, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("restart", "RUNNING"), ("stop", "STOPPED")):
        assert f"{name} " in act(pages, service, quoted, action)
        eventually(lambda state=state: states(service, quoted) == state, action)
    assert "is not changed" in act(pages, service, quoted, "reset-offsets", confirm="other")
    assert "were reset" in act(pages, service, quoted, "reset-offsets", confirm=name)
    assert service.http.get(f"/connectors/{quoted}/offsets").json()["offsets"] == []
    assert "is not changed" in act(pages, service, quoted, "delete")
    assert "there is no action" in act(pages, service, quoted, "explode")
    assert "was deleted" in act(pages, service, quoted, "delete", confirm=name)
    assert service.http.get(f"/connectors/{quoted}").status_code == 404


def test_actions_need_the_token_and_are_refused_in_read_only_mode(broker, pages, service):
    answer = pages.post(place(service, "made"), form=place(service, "made"), action="pause", csrf="wrong")
    assert answer.status_code == 403
    settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, connect=(service.url,), read_only=True)
    with running(settings) as (console, server):
        wait_until(lambda: connect_of(console.snapshot), "the console has asked the service")
        only = Running(console, server.url)
        assert "disabled" in only.page(f"{place(service, 'made')}?tab=manage")
        assert only.post(place(service, "made"), form=place(service, "made"), action="pause").status_code == 403
    assert states(service, "made") == "RUNNING"


def test_dead_letters_are_counted_by_reason_with_a_link_to_them(broker, pages, service, tmp_path: Path):
    Records(broker.bootstrap_servers).put("numbers", ['{"n": 1}', "{torn", '{"n": 2}', "{worse"])
    service.create(
        "numbers",
        connector_class="files-sink",
        topics="numbers",
        path=tmp_path,
        errors_tolerance="all",
        **{
            "errors.deadletterqueue.topic.name": "numbers-dlq",
            "errors.deadletterqueue.context.headers.enable": "true",
        },
    )
    page = f"{place(service, 'numbers')}?tab=letters"
    wait_until(lambda: "2 letters" in pages.page(page), "the letters are shown")
    assert "value converter" in pages.page(page)
    assert "/topics/numbers-dlq?filter=header" in pages.page(page)
    wait_until(lambda: "Connector numbers leaves records out" in pages.page("/"), "the overview says so")
    found = pages.found("/topics/numbers-dlq/search", filter='header["__connect.errors.stage"] == "VALUE_CONVERTER"')
    assert len(found) == 2


def test_a_refresh_of_the_former_page_does_not_take_the_notice(pages, service):
    with httpx.Client(base_url=pages.url, headers=HTML, timeout=60) as client:
        token = re.search('name="csrf" value="([^"]+)"', client.get(place(service, "made")).text)
        client.post(place(service, "made"), data={"csrf": token[1], "action": "explode"})
        refreshed = client.get("/connect", headers={"x-refresh": "1"})
        assert "there is no action" not in refreshed.text
        assert "there is no action" in client.get(place(service, "made")).text


# Services that do not answer as they should


def connect_at(*urls: str) -> Connect | None:
    reader = Reader(urls, History())
    try:
        return reader.read(healthy())
    finally:
        reader.close()


def root(cluster: str = "test") -> Answer:
    return Answer(body=json.dumps({"version": "4.3.0", "commit": "x", "kafka_cluster_id": cluster}).encode())


def one_connector(request: Request) -> Answer:
    """Apache Kafka's Connect: it has no metrics, and its config has passwords as they are."""
    told = {
        "info": {"name": "a", "type": "sink", "config": {"connector.class": "x.Sink", "key": "hunter2", "topics": "t"}},
        "status": {"name": "a", "type": "sink", "connector": {"state": "RUNNING", "worker_id": "w:1"}, "tasks": []},
    }
    options = [{"name": "key", "type": "PASSWORD"}, {"name": "topics", "type": "LIST"}]
    answers = {"/": root(), "/connector-plugins/x.Sink/config": Answer(body=json.dumps(options).encode())}
    if request.path.startswith("/connectors?"):
        return Answer(body=json.dumps({"a": told}).encode())
    return answers.get(request.path, Answer(404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'))


def test_declared_passwords_of_kafkas_connect_are_hidden():
    with http_server(one_connector) as server:
        [connector] = connect_at(server.url).connectors
    assert connector.config == {"connector.class": "x.Sink", "key": "****", "topics": "t"}


def test_a_redirect_is_never_followed():
    with http_server() as other, http_server(lambda _: Answer(302, headers={"location": other.url})) as server:
        [seen] = connect_at(server.url).services
        assert "does not follow" in seen.problem
        with pytest.raises(Silent):
            services([server.url])[server.url.removeprefix("http://")].ask("PUT", "connectors", "a", "pause")
    assert other.requests == []


def test_a_silent_service_delays_nothing_and_keeps_what_was_known(monkeypatch):
    monkeypatch.setattr(api, "ANSWER_S", 0.5)
    monkeypatch.setattr(api.ConnectApi.ask, "__kwdefaults__", {"body": None, "query": None, "within_s": 0.5})
    with http_server(one_connector) as server, socket.create_server(("127.0.0.1", 0)) as silent:
        reader = Reader([server.url, f"http://127.0.0.1:{silent.getsockname()[1]}"], History())
        began_s = time.monotonic()
        seen = reader.read(healthy())
        assert time.monotonic() - began_s < 30
        assert [bool(each.problem) for each in seen.services] == [False, True]
        server.reply = lambda _: Answer(500, b"<html>")
        later = reader.read(healthy())
        assert later.connectors == seen.connectors
        assert "HTTP 500" in later.services[0].problem
        reader.close()


def test_a_connector_that_fails_again_and_again_is_not_well_between_its_restarts():
    states = ["RESTARTING"]

    def reply(request: Request) -> Answer:
        task = {"id": 0, "state": states[0], "worker_id": "w:1"}
        if states[0] == "RESTARTING":
            task["trace"] = "Traceback:\n  File x\nOSError: the disk is full"
        told = {
            "info": {"name": "a", "type": "sink", "config": {"topics": "t"}},
            "status": {
                "name": "a", "type": "sink", "connector": {"state": "RUNNING", "worker_id": "w:1"}, "tasks": [task]
            },
        }  # fmt: skip
        return root() if request.path == "/" else Answer(body=json.dumps({"a": told}).encode())

    now_s = [100.0]
    with http_server(reply) as server:
        reader = Reader([server.url], History(), now_s=lambda: now_s[0])

        def seen() -> tuple[str, str]:
            [one] = reader.read(healthy()).connectors
            return one.shown_state, one.cause

        failing = ("RESTARTING", "OSError: the disk is full")
        assert seen() == failing
        states[0] = "RUNNING"
        now_s[0] += RECOVERED_S - 1
        assert seen() == failing
        now_s[0] += 1
        assert seen() == ("RUNNING", "")
        states[0] = "RESTARTING"
        assert seen() == failing
        states[0] = "RUNNING"
        reader.repaired(next(iter(reader.apis.values())), "a")
        assert seen() == ("RUNNING", "")
        reader.close()


def answers_of(server: HttpServer, body: bytes) -> str:
    server.reply = lambda request: root() if request.path == "/" else Answer(body=body)
    return connect_at(server.url).services[0].problem


def test_a_service_of_another_cluster_or_kind_is_named():
    with http_server(lambda _: root("elsewhere")) as server:
        assert "another cluster, elsewhere" in connect_at(server.url).services[0].problem
        assert "is not Connect's REST API" in answers_of(server, b'["a"]')
        assert "is not Connect's REST API" in answers_of(server, b'{"a": {"info": 1}}')
        assert "does not answer" in answers_of(server, b"<html>")


def test_the_default_address_counts_only_if_its_service_works_for_this_cluster(monkeypatch):
    monkeypatch.setattr(api, "DEFAULT_URL", "http://127.0.0.1:1")
    assert connect_at() is None
    with http_server(lambda _: root("elsewhere")) as server:
        monkeypatch.setattr(api, "DEFAULT_URL", server.url)
        assert connect_at() is None
        server.reply = one_connector
        [found] = connect_at().connectors
        assert found.name == "a"


def test_two_services_of_a_group_show_each_connector_once():
    with http_server(one_connector) as first, http_server(one_connector) as second:
        seen = connect_at(first.url, second.url)
    assert len(seen.services) == 2
    assert len(seen.connectors) == 1


def test_a_user_and_password_in_the_address_are_sent_and_never_shown():
    with http_server(one_connector) as server:
        seen = connect_at(server.url.replace("://", "://me:hunter2@"))
        assert server.requests[0].headers["Authorization"] == "Basic bWU6aHVudGVyMg=="
    assert "hunter2" not in repr(seen)
