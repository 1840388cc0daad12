"""The HTTP stack over real sockets: start and stop, errors as JSON, limits, host names, files."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from odradek.web.application import application
from odradek.web.errors import HttpError
from odradek.web.files import PackageFiles
from odradek.web.listening import CannotListen
from odradek.web.scope import ABORT
from odradek.web.server import HttpServer
from odradek.web.strangers import Strangers

UNHURRIED_S = 60
get, post = (partial(method, timeout=UNHURRIED_S) for method in (httpx.get, httpx.post))


async def echo(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())})


async def refuse(_request: Request) -> Response:
    raise HttpError(409, "the fleet is busy", "another user controls it; wait or ask them")


async def break_down(_request: Request) -> Response:
    raise ZeroDivisionError("a secret detail")


ROUTES = [Route("/echo", echo, methods=["POST"]), Route("/refuse", refuse), Route("/break", break_down)]
APP = application(ROUTES)


@pytest.fixture
def server(tmp_path, monkeypatch):
    page = tmp_path / "web_fixture" / "page"
    page.mkdir(parents=True)
    (page.parent / "__init__.py").write_text("")
    (page / "index.html").write_text("<p>hello")
    (tmp_path / "secret.txt").write_text("not for you")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = Mount("/files", PackageFiles("web_fixture", "page"))
    with HttpServer(application([*ROUTES, files], body_bytes_max=1000)) as running:
        yield running


def raw(server: HttpServer, request: bytes) -> bytes:
    """The response until the server closes the connection; unread bytes cause a reset."""
    answer = b""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, UNHURRIED_S) as connection, suppress(ConnectionResetError):
        connection.sendall(request)
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def test_the_server_listens_only_on_loopback_and_stops_after_the_block():
    before = set(threading.enumerate())
    with HttpServer(APP) as server:
        host, port = server._socket.getsockname()
        assert host == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{port}"
        assert post(f"{server.url}/echo", content=b"abc").json() == {"bytes": 3}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert "odradek-http" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_nagles_algorithm_is_disabled():
    async def tell(request: Request) -> Response:
        transport = request.scope[ABORT].__self__
        return JSONResponse(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with HttpServer(application([Route("/", tell)])) as server:
        assert get(server.url).json() == 1


def test_a_taken_port_fails_at_once_with_a_hint():
    with HttpServer(APP) as first, pytest.raises(CannotListen, match=rf"127.0.0.1:{first.port}.*free port"):
        HttpServer(APP, port=first.port).start()


@pytest.mark.parametrize(
    ("request_bytes", "guess"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x00", "probably a Kafka request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "probably HTTPS: this port has no TLS"),
        (b"\x01nonsense\r\n\r\n", "sent something else. "),
    ],
)
def test_what_is_not_http_is_reported_with_a_guess_and_once_a_minute(server, caplog, monkeypatch, request_bytes, guess):
    now = [100.0]
    monkeypatch.setattr("odradek.web.server._STRANGERS", Strangers(clock=lambda: now[0]))
    for at in (100.0, 101.0, 159.0, 161.0):
        now[0] = at
        assert raw(server, request_bytes).startswith(b"HTTP/1.1 400")
    assert [guess in record.getMessage() for record in caplog.records] == [True, True]
    assert f"port {server.port} speaks HTTP, but 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    ("request_bytes", "why"),
    [
        ("GET /ü HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(), "illegal request line. "),
        (b"GET / HTTP/1.1\r\n\r\n", "Missing mandatory Host: header. "),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\ncookie\x01: secret\r\n\r\n", "illegal header line. "),
    ],
)
def test_a_refused_http_request_is_logged_with_its_reason(server, caplog, monkeypatch, request_bytes, why):
    monkeypatch.setattr("odradek.web.server._STRANGERS", Strangers(clock=lambda: 100.0))
    for sent in (request_bytes, request_bytes, b"\x00\x00\x00\x10\x00\x12\x00\x00"):
        assert raw(server, sent).startswith(b"HTTP/1.1 400")
    refused, stranger = [record.getMessage() for record in caplog.records]
    assert f"port {server.port} refused an HTTP request of 127.0.0.1: {why}" in refused
    assert "secret" not in refused
    assert "probably a Kafka request" in stranger


def test_errors_are_json_with_what_and_why(server):
    told = get(f"{server.url}/refuse")
    assert (told.status_code, told.json()) == (
        409,
        {"status": 409, "what": "the fleet is busy", "why": "another user controls it; wait or ask them"},
    )
    assert get(f"{server.url}/nowhere").json() == {
        "status": 404, "what": "GET /nowhere", "why": "there is nothing at this path",
    }  # fmt: skip
    wrong_method = get(f"{server.url}/echo")
    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "POST")
    assert wrong_method.json()["why"] == "this path does not take this method"


def test_an_unexpected_error_is_logged_and_its_details_are_not_sent(server, caplog):
    told = get(f"{server.url}/break")
    assert told.status_code == 500
    assert "ZeroDivisionError" in told.json()["why"]
    assert "secret" not in told.text
    assert "a secret detail" in caplog.text


def test_a_body_above_the_limit_is_refused_with_or_without_content_length(server):
    assert post(f"{server.url}/echo", content=b"x" * 1000).json() == {"bytes": 1000}
    assert post(f"{server.url}/echo", content=b"x" * 1001).status_code == 413
    unannounced = post(f"{server.url}/echo", content=iter([b"x" * 600, b"x" * 600]))
    assert (unannounced.status_code, unannounced.json()["what"]) == (413, "the request's body is too large")
    # The Content-Length is enough: the server does not wait for the body.
    told = raw(
        server, b"POST /echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 9999999999\r\n\r\n"
    )
    assert told.startswith(b"HTTP/1.1 413")


def test_endless_headers_and_malformed_requests_are_refused(server):
    assert raw(server, b"GET / HTTP/1.1\r\nx: " + b"y" * 2_000_000)[:12] in (b"HTTP/1.1 400", b"")
    assert raw(server, b"\x16\x03\x01 not http\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert get(f"{server.url}/refuse").status_code == 409


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:80", 409),
        ("127.0.0.1", 409),
        ("[::1]:9", 409),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
    ],
)
def test_a_foreign_host_name_on_loopback_is_refused(server, host, status):
    assert get(f"{server.url}/refuse", headers={"host": host}).status_code == status


def test_a_host_name_can_be_allowed():
    with HttpServer(APP, names=["Fleet.example"]) as server:
        assert get(f"{server.url}/refuse", headers={"host": "fleet.EXAMPLE:81"}).status_code == 409


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://localhost:81", "host": "localhost:81"}, 200),
        ({"origin": "http://localhost:82", "host": "localhost:81"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_a_page_from_another_site_cannot_change_anything(server, headers, status):
    assert post(f"{server.url}/echo", content=b"", headers=headers).status_code == status
    assert get(f"{server.url}/refuse", headers=headers).status_code == 409, "it may ask; the browser keeps it"


def test_only_files_of_the_package_are_served(server):
    page = get(f"{server.url}/files/")
    assert (page.text, page.headers["cache-control"]) == ("<p>hello", "no-cache")
    again = get(f"{server.url}/files/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    for path in (b"/files/../../secret.txt", b"/files/%2e%2e/%2e%2e/secret.txt", b"/files//etc/passwd"):
        assert raw(server, b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 404"
        )


def test_a_failing_lifespan_fails_the_start():
    @asynccontextmanager
    async def lifespan(_app):
        raise RuntimeError("no database")
        yield

    server = HttpServer(application([], lifespan=lifespan))
    for begin in (server.start, server.serve_forever):
        with pytest.raises(RuntimeError, match="lifespan failed"):
            begin()


def test_any_error_at_the_start_is_raised_by_it(monkeypatch):
    async def broken(_server, sockets=None):
        raise OSError("no descriptor is left")

    monkeypatch.setattr(uvicorn.Server, "startup", broken)
    server = HttpServer(APP)
    for begin in (server.start, server.serve_forever):
        with pytest.raises(OSError, match="no descriptor is left"):
            begin()


def test_a_server_that_starts_too_late_ends_by_itself(monkeypatch):
    monkeypatch.setattr("odradek.web.server.START_TIMEOUT_S", 0.01)
    may_start = threading.Event()

    @asynccontextmanager
    async def lifespan(_app):
        may_start.wait()
        yield

    before = set(threading.enumerate())
    with pytest.raises(TimeoutError, match="did not start"):
        HttpServer(application([], lifespan=lifespan)).start()
    (late,) = set(threading.enumerate()) - before
    may_start.set()
    late.join(UNHURRIED_S)
    assert not late.is_alive()


FOREGROUND = """
from odradek.web.application import application
from odradek.web.scope import ABORT
from odradek.web.server import HttpServer
from odradek.web.strangers import Strangers
from contextlib import asynccontextmanager

@asynccontextmanager
async def lifespan(app):
    print(server.port, flush=True)
    yield

server = HttpServer(application([], lifespan=lifespan))
try:
    server.serve_forever()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_the_foreground_server_stops_on_a_signal():
    with subprocess.Popen([sys.executable, "-c", FOREGROUND], stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline())
            assert get(f"http://127.0.0.1:{port}/").status_code == 404
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=UNHURRIED_S) == ("stopped\n", None)
            assert process.returncode == 0
        finally:
            process.kill()
