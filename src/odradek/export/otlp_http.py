"""OTLP over HTTP, with protobuf bodies. Headers come from OTEL_EXPORTER_OTLP_HEADERS, as in OpenTelemetry."""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Mapping
from urllib.parse import unquote

from odradek import __version__
from odradek.export.destinations import Identity, OtlpAddress
from odradek.export.pushing import PushFailed
from odradek.monitor.otlp import requests
from odradek.monitor.registry import Snapshot

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
TIMEOUT_S = 5.0
PAUSE_S = 0.001
ANSWER_BYTES_MAX = 64 * 1024


class OtlpCollector:
    def __init__(self, address: OtlpAddress, identity: Identity, labels: Mapping[str, str]) -> None:
        self._address = address
        self._resource = {"service.name": identity.service, "service.instance.id": identity.instance, **labels}
        self._started_ns = time.time_ns()
        self._headers = {"content-type": "application/x-protobuf", **_headers(os.environ.get(HEADERS_VARIABLE, ""))}
        self._connection: http.client.HTTPConnection | None = None

    def push(self, snapshot: Snapshot) -> None:
        parts = requests(
            snapshot, self._resource, version=__version__, started_ns=self._started_ns, now_ns=time.time_ns()
        )
        for body in parts:
            if body is None:
                time.sleep(PAUSE_S)  # lets other threads take the interpreter lock
            else:
                self._post(body)

    def _post(self, body: bytes) -> None:
        is_new = self._connection is None
        try:
            self._exchange(body)
        except (OSError, http.client.HTTPException) as broken:
            self.close()
            if is_new:
                raise PushFailed(str(broken) or type(broken).__name__) from broken
            # The collector closes idle connections.
            self._post(body)

    def _exchange(self, body: bytes) -> None:
        if self._connection is None:
            self._connection = self._connected()
        self._connection.request("POST", self._address.path, body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX)
        if answer.status // 100 != 2:
            self.close()
            raise PushFailed(f"HTTP {answer.status} {text[:200].decode('utf-8', 'replace')}".rstrip())

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._address.is_secure:
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _headers(text: str) -> dict[str, str]:
    """`key=value,key=value`, with values in percent-encoding."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
