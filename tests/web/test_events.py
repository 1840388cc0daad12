"""Event streams: many listeners, slow listeners, a server that stops."""

from __future__ import annotations

import json
import socket
import threading
import time

import httpx
import pytest
from starlette.routing import Route

from odradek.web.application import application
from odradek.web.events import Broadcast, Event
from odradek.web.server import STOP_GRACE_S, HttpServer
from support.waiting import wait_until


def serving(broadcast: Broadcast) -> HttpServer:
    async def stream(_request):
        return broadcast.response()

    return HttpServer(application([Route("/events", stream)]))


class Listening:
    """A client in its own thread, which collects all events until the stream ends."""

    def __init__(self, server: HttpServer) -> None:
        self.heard: list[object] = []
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=[f"{server.url}/events"], daemon=True)
        self._thread.start()

    def _listen(self, url: str) -> None:
        with httpx.stream("GET", url, timeout=60) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.heard.append(json.loads(line[6:]))
        self.ended.set()


def mute_listener(server: HttpServer) -> socket.socket:
    """Requests the events and never reads one."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    return connection


def test_all_listeners_get_all_events_in_order_after_the_greeting():
    broadcast = Broadcast(lambda: [Event(data="welcome")])
    with serving(broadcast) as server:
        listeners = [Listening(server) for _ in range(20)]
        wait_until(lambda: broadcast.listeners == 20, "20 listeners")
        for number in range(500):
            broadcast.publish(number)
        for listener in listeners:
            wait_until(lambda: len(listener.heard) == 501, "all events")  # noqa: B023
            assert listener.heard == ["welcome", *range(500)]
    for listener in listeners:
        assert listener.ended.wait(60)
    assert broadcast.listeners == 0


def test_names_and_lines_cannot_break_out_of_an_event():
    assert (
        Event(name="alert", data="a\n\nevent: forged\r\n").frame()
        == b'event: alert\ndata: "a\\n\\nevent: forged\\r\\n"\n\n'
    )


def test_a_slow_listener_is_dropped_without_delaying_others():
    broadcast = Broadcast(queue_bytes_max=64_000)
    with serving(broadcast) as server, mute_listener(server) as mute:
        quick = Listening(server)
        wait_until(lambda: broadcast.listeners == 2, "both listeners")
        sent = 0
        while broadcast.dropped == 0:
            broadcast.publish("x" * 10_000)
            sent += 1
            wait_until(lambda: len(quick.heard) == sent, "the quick one")  # noqa: B023
            assert sent < 5000, "memory grows for a listener who reads nothing"
        wait_until(lambda: _is_cut(mute), "the mute connection to be cut")
        assert broadcast.listeners == 1
        broadcast.publish("still here")
        wait_until(lambda: quick.heard[-1] == "still here", "the quick one")


def _is_cut(connection: socket.socket) -> bool:
    """After a reset a write fails, even if unread data is left."""
    try:
        connection.send(b"\r\n")
    except OSError:
        return True
    return False


def test_a_listener_that_disconnects_is_removed():
    broadcast = Broadcast()
    with serving(broadcast) as server:
        connection = mute_listener(server)
        wait_until(lambda: broadcast.listeners == 1, "the listener")
        connection.close()
        wait_until(lambda: broadcast.listeners == 0, "the departure")
        assert broadcast.dropped == 0


def test_a_listener_above_the_limit_is_refused():
    broadcast = Broadcast(listeners_max=1)
    with serving(broadcast) as server, mute_listener(server):
        wait_until(lambda: broadcast.listeners == 1, "the listener")
        told = httpx.get(f"{server.url}/events", timeout=60)
        assert (told.status_code, told.json()["what"]) == (503, "too many listeners")


def test_stopping_ends_streams_even_of_listeners_that_do_not_read():
    broadcast = Broadcast(queue_bytes_max=1 << 30)
    server = serving(broadcast)
    server.start()
    with mute_listener(server):
        reading = Listening(server)
        wait_until(lambda: broadcast.listeners == 2, "both listeners")
        for _ in range(200):
            broadcast.publish("x" * 100_000)
        wait_until(lambda: len(reading.heard) == 200, "the reading one")
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < STOP_GRACE_S + 30
        assert reading.ended.wait(60)


def test_publishing_without_listeners_does_no_work():
    Broadcast().publish(object())  # not even turned into JSON


def test_publishing_data_that_is_not_json_raises():
    broadcast = Broadcast()
    with serving(broadcast) as server, mute_listener(server):
        wait_until(lambda: broadcast.listeners == 1, "the listener")
        with pytest.raises(TypeError):
            broadcast.publish(object())
