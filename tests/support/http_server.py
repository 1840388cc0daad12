"""A real HTTP server on loopback whose replies a test writes."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Callable[[Request], Answer]


@dataclass
class HttpServer:
    url: str
    reply: Reply
    requests: list[Request] = field(default_factory=list)


@contextmanager
def http_server(reply: Reply = lambda _: Answer(), *, certificate: Path | None = None) -> Iterator[HttpServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers.items()), body)
            served.requests.append(request)
            answer = served.reply(request)
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Clients that leave early are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    served = HttpServer(f"{scheme}://127.0.0.1:{server.server_address[1]}", reply)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1 and its key in one file."""
    path, key = folder / "server.pem", folder / "key.pem"
    asked = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test"]
    subprocess.run(
        ["openssl", "req", "-x509", *asked, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", path],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + key.read_text())
    return path
