"""Requests of the HTTP connectors: one pool of connections, TLS, and replies of a limited size."""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

import urllib3

from odradek.connect.interface import RetriableError

CHUNK_BYTES = 1 << 16
# Statuses that say "not now".
BUSY = frozenset({408, 425, 429})
SHOWN_CHARS_MAX = 200


class Unreachable(RetriableError):
    """The server could not be reached, or did not reply in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """`is_cut`: the body was longer than the limit, and only its beginning was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool

    @property
    def is_busy(self) -> bool:
        return self.status in BUSY or self.status >= 500

    @property
    def shown(self) -> str:
        """The status and the beginning of the body, for an error message."""
        text = self.body.decode(errors="replace").strip()[:SHOWN_CHARS_MAX]
        return f"{self.status}: {text}" if text else str(self.status)

    @property
    def retry_after_s(self) -> float:
        """What the header Retry-After asks for: seconds, or a date. 0 if it is missing or not understood."""
        text = self.headers.get("Retry-After", "").strip()
        if text.isdigit():
            return float(text[:9])
        try:
            at = email.utils.parsedate_to_datetime(text)
        except ValueError:
            return 0.0
        return max((at - dt.datetime.now(dt.UTC if at.tzinfo else None)).total_seconds(), 0.0)


def web_address(url: str) -> str | None:
    """A check for options that are addresses."""
    parts = urllib.parse.urlsplit(url)
    is_good = parts.scheme in ("http", "https") and parts.hostname
    return None if is_good else "must be an http or https address"


def origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def without_login(url: str) -> tuple[str, dict[str, str]]:
    """The address without user and password, and the header that has them instead."""
    parts = urllib.parse.urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    plain = urllib.parse.urlunsplit(parts._replace(netloc=host))
    if not at:
        return plain, {}
    return plain, basic_login(urllib.parse.unquote(login))


def basic_login(login: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


class Exchange:
    """Sends requests to one server. Threads may share it. Redirects are replies like any other."""

    def __init__(
        self, *, connections: int, timeout_s: float, ca_file: str | None = None, trust_all: bool = False
    ) -> None:
        self._timeout_s = timeout_s
        if trust_all:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._pool = urllib3.PoolManager(
            maxsize=connections,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            cert_reqs="CERT_NONE" if trust_all else "CERT_REQUIRED",
            assert_hostname=False if trust_all else None,
            ca_certs=ca_file,
        )

    def send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], bytes_max: int) -> Reply:
        """Raises Unreachable. Reads at most `bytes_max` of the reply, within the time limit."""
        deadline = time.monotonic() + self._timeout_s
        try:
            response = self._pool.request(
                method, url, body=body, headers=dict(headers), preload_content=False, redirect=False
            )
            try:
                content, is_cut = _bounded(response, bytes_max, deadline)
            except BaseException:
                response.close()
                raise
        except (urllib3.exceptions.HTTPError, OSError) as failed:
            host = origin(url)[1]
            raise Unreachable(f"{host} does not answer: {failed}") from failed
        if is_cut:
            response.close()
        else:
            response.release_conn()
        return Reply(response.status, response.headers, content, is_cut)

    def close(self) -> None:
        self._pool.clear()


def _bounded(response: urllib3.BaseHTTPResponse, bytes_max: int, deadline: float) -> tuple[bytes, bool]:
    content = bytearray()
    while len(content) <= bytes_max:
        chunk = response.read1(CHUNK_BYTES, decode_content=False)
        if not chunk:
            return bytes(content), False
        content += chunk
        # The socket's timeout limits the wait for one chunk. A server that sends slowly must not hold a task for ever.
        if time.monotonic() > deadline:
            raise TimeoutError("the body of the reply took too long")
    return bytes(content[:bytes_max]), True
