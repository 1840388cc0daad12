"""A schema registry with the part of Confluent's documented HTTP API that converters call, in a thread."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from support.protoc import serialized


class SchemaRegistry:
    """Schemas by id, ids by subject, and the requests that were made."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, body: dict[str, Any], query: str = "") -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.requests.append(f"{method} {path}")
            parts = [unquote(part) for part in path.strip("/").split("/")]
            match method, parts:
                case "GET", ["schemas", "ids", number]:
                    found = self.schemas.get(int(number))
                    return self._told(found, query)
                case "GET", ["subjects", subject, "versions", version]:
                    known = self.subjects.get(subject, [])
                    return self._told(
                        self.schemas[known[int(version) - 1]] if int(version) <= len(known) else None, query
                    )
                case "POST", ["subjects", subject, "versions"]:
                    return 200, {"id": self._registered(subject, body)}
                case "POST", ["subjects", subject]:
                    for known in self.subjects.get(subject, []):
                        if self.schemas[known] == body:
                            return 200, {"subject": subject, "id": known, "version": 1, **body}
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _told(self, found: dict[str, Any] | None, query: str) -> tuple[int, dict[str, Any]]:
        if found is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if query != "format=serialized":
            return 200, dict(found)
        files = {"main.proto": found["schema"], **self._files(found)}
        data = serialized("main.proto", files).SerializeToString()
        return 200, {**found, "schema": base64.b64encode(data).decode()}

    def _files(self, found: dict[str, Any]) -> dict[str, str]:
        files: dict[str, str] = {}
        for each in found.get("references", ()):
            other = self.schemas[self.subjects[each["subject"]][each["version"] - 1]]
            files |= {each["name"]: other["schema"], **self._files(other)}
        return files

    def _registered(self, subject: str, body: dict[str, Any]) -> int:
        same = (number for number, schema in self.schemas.items() if schema == body)
        number = next(same, len(self.schemas) + 1)
        self.schemas[number] = body
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply()

        do_POST = do_GET  # noqa: N815 (the names that http.server calls)

        def _reply(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            status, told = registry.answer(self.command, urlsplit(self.path).path, body, urlsplit(self.path).query)
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
