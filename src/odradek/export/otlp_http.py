"""OTLP over HTTP, with protobuf bodies. Headers come from OTEL_EXPORTER_OTLP_HEADERS, as in OpenTelemetry."""

from __future__ import annotations

import http.client
import logging
import os
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from odradek import __version__
from odradek.base.protobuf import BYTES, FieldReader, MalformedProtobuf, TooManyFields, number_of
from odradek.export.destinations import Identity, OtlpAddress
from odradek.export.pushing import PushFailed
from odradek.monitor.otlp import requests
from odradek.monitor.registry import Snapshot

logger = logging.getLogger(__name__)

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
TIMEOUT_S = 5.0
PAUSE_S = 0.001
ANSWER_BYTES_MAX = 64 * 1024
ANSWER_FIELDS_MAX = 100
COMPLAINT_CHARACTERS_MAX = 500


class Complaint(NamedTuple):
    """A partial success: how many points the collector rejected, and why. None rejected: a warning."""

    rejected: int
    message: str


NO_COMPLAINT = Complaint(0, "")


class OtlpCollector:
    def __init__(self, address: OtlpAddress, identity: Identity, labels: Mapping[str, str]) -> None:
        self._address = address
        self._resource = {"service.name": identity.service, "service.instance.id": identity.instance, **labels}
        self._started_ns = time.time_ns()
        self._headers = {"content-type": "application/x-protobuf", **_headers(os.environ.get(HEADERS_VARIABLE, ""))}
        self._connection: http.client.HTTPConnection | None = None
        # The former push got `_complaint`; the requests of this push got `_complaints`.
        self._complaint = NO_COMPLAINT
        self._complaints: list[Complaint] = []

    def push(self, snapshot: Snapshot) -> None:
        parts = requests(
            snapshot, self._resource, version=__version__, started_ns=self._started_ns, now_ns=time.time_ns()
        )
        self._complaints.clear()
        for body in parts:
            if body is None:
                time.sleep(PAUSE_S)  # lets other threads take the interpreter lock
            else:
                self._post(body)
        self._log_complaint()

    def _log_complaint(self) -> None:
        """Once per change: a collector that rejects points usually does it at every push."""
        rejected = sum(each.rejected for each in self._complaints)
        message = next((each.message for each in self._complaints if each.message), "")
        before, self._complaint = self._complaint, Complaint(rejected, message)
        if (bool(before.rejected), before.message) == (bool(rejected), message):
            return
        if rejected:
            why = message or "it gave no reason"
            logger.warning("%s rejected %d points of a push: %s", self._address, rejected, why)
        elif message:
            logger.warning("%s took a push with a warning: %s", self._address, message)
        else:
            logger.info("%s takes pushes without complaints again", self._address)

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
        self._complaints.append(complaint_in(text))

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._address.is_secure:
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def complaint_in(answer: bytes) -> Complaint:
    """The partial success of an `ExportMetricsServiceResponse`. The status has said that the request was taken."""
    rejected, message = 0, ""
    reader = FieldReader(ANSWER_FIELDS_MAX)
    try:
        for outer in reader.fields(memoryview(answer)):
            if outer[:2] != (1, BYTES) or isinstance(outer[2], int):
                continue
            for field in reader.fields(outer[2]):
                number, wire_type, value = field
                if number == 1:
                    rejected = number_of(field)
                elif (number, wire_type) == (2, BYTES) and not isinstance(value, int):
                    message = bytes(value[: 4 * COMPLAINT_CHARACTERS_MAX]).decode(errors="replace")
    except (MalformedProtobuf, TooManyFields):
        return NO_COMPLAINT
    return Complaint(rejected, message[:COMPLAINT_CHARACTERS_MAX])


def _headers(text: str) -> dict[str, str]:
    """`key=value,key=value`, with values in percent-encoding."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}
