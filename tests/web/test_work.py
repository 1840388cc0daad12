"""Work for one request: order, backpressure, and that it stops when the listener leaves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from starlette.routing import Route

from odradek.web import work
from odradek.web.application import application
from odradek.web.server import HttpServer
from odradek.web.work import Line, WorkStream
from support.consoles import events_of
from support.waiting import wait_until


@contextmanager
def serving(job: Callable[[Line], None]) -> Iterator[str]:
    with HttpServer(application([Route("/", lambda _: WorkStream(job, "tested-work"))])) as server:
        yield server.url


def is_running() -> bool:
    return any(thread.name == "tested-work" for thread in threading.enumerate())


def test_all_events_arrive_in_order_and_the_stream_ends():
    def job(line: Line) -> None:
        for number in range(5000):
            line.send("number", number)

    with serving(job) as url, httpx.stream("GET", url) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [told for _, told in events_of(answer)] == list(range(5000))


def test_work_stops_when_the_listener_leaves():
    def job(line: Line) -> None:
        line.send("started", {})
        while True:
            line.check()
            line.wait(10)

    with serving(job) as url:
        with httpx.stream("GET", url) as answer:
            lines = answer.iter_lines()  # without a name it would be deleted, which closes the connection
            next(lines)
            assert is_running()
        wait_until(lambda: not is_running(), "the work stops")


def test_work_stops_when_the_server_stops():
    def job(line: Line) -> None:
        line.send("started", {})
        line.wait(60)

    with ExitStack() as stack:
        url = stack.enter_context(serving(job))
        with httpx.stream("GET", url) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert is_running()
            stack.close()  # the server, while the listener is there
            assert "data: {}" in list(lines)  # it ends as it should: otherwise httpx raises an error
    wait_until(lambda: not is_running(), "the work stops")


def test_work_ends_when_its_listener_reads_nothing_for_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(work, "PATIENCE_S", 0.5)

    def job(line: Line) -> None:
        while True:
            line.send("filler", "x" * 100_000)

    with serving(job) as url, httpx.stream("GET", url) as answer:
        assert answer.status_code == 200
        wait_until(lambda: not is_running(), "the work stops")


def test_listener_that_reads_nothing_holds_the_work_back(monkeypatch: pytest.MonkeyPatch):
    sent = itertools.count()
    last = [0]

    def job(line: Line) -> None:
        while True:
            line.send("block", "x" * 100_000)
            last[0] = next(sent)

    with serving(job) as url, httpx.stream("GET", url):
        held: list[int] = []

        def is_held() -> bool:
            held.append(last[0])
            return len(held) > 25 and held[-25] == held[-1] > 0

        wait_until(is_held, "the work waits")
        assert last[0] * 100_000 < 30 * work.QUEUE_BYTES_MAX  # the queue, and the buffers of the sockets
    wait_until(lambda: not is_running(), "the work stops")


def test_offered_events_are_lost_when_the_queue_is_full():
    taken: list[bool] = []

    def job(line: Line) -> None:
        while len(taken) < 1000 and not (taken and not taken[-1]):
            taken.append(line.offer("block", "x" * 500_000))
        line.wait(60)

    with serving(job) as url, httpx.stream("GET", url):
        wait_until(lambda: taken and not taken[-1], "an event is lost")


def test_work_that_fails_tells_the_listener_and_the_log(caplog: pytest.LogCaptureFixture):
    def job(line: Line) -> None:
        raise RuntimeError("a bug with a secret")

    with serving(job) as url:
        text = httpx.get(url).text
    assert "problem" in text
    assert "secret" not in text
    assert "tested-work failed" in caplog.text
