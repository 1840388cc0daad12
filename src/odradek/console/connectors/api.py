"""Requests to Connect's REST API: bounded in time and size, and only to the addresses that the operator gave.

A redirect is refused, because it would let one service choose where the console sends requests.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from odradek.base.limits import KIB, MIB

DEFAULT_URL = "http://127.0.0.1:8083"
ANSWER_S = 4.0
# An action may wait for a rebalance of the workers, or for tasks that stop.
ACTION_S = 30.0
# A service may load all its plug-ins for its first answer about them.
PLUGINS_S = 20.0
ANSWER_BYTES_MAX = 32 * MIB
CHUNK_BYTES = 64 * KIB
WHY_CHARS_MAX = 2000


class Silent(Exception):
    """The service gives no usable answer."""


class Declined(Exception):
    """The service does not do what was asked. The text is its own."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectApi:
    """One service. `key` names it in addresses of pages. Any thread may ask."""

    url: str  # without user and password
    key: str
    is_default: bool = False  # the operator gave no address
    authorization: str = ""

    def get(self, *path: str, **query: str | Sequence[str]) -> Any:  # noqa: ANN401 (JSON)
        return self.ask("GET", *path, query=query)

    def ask(
        self,
        method: str,
        *path: str,
        body: object = None,
        query: Mapping[str, str | Sequence[str]] | None = None,
        within_s: float = ANSWER_S,
    ) -> Any:  # noqa: ANN401 (JSON)
        """The answer; None for an empty one. Raises Silent and Declined."""
        target = f"{self.url}/{'/'.join(quote(part, safe='') for part in path)}"
        if query:
            target = f"{target}?{urlencode(query, doseq=True)}"
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self.authorization:
            headers["authorization"] = self.authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(target, data, headers, method=method)  # noqa: S310 (http or https)
        deadline_s = time.monotonic() + within_s
        try:
            with _OPENER.open(request, timeout=within_s) as answer:
                return _json(_read(answer, deadline_s, ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as refused:
            raise _told(self.url, refused, deadline_s) from None
        except (OSError, ValueError, http.client.HTTPException) as failed:
            raise Silent(f"{self.url} does not answer: {_reason(failed)}") from None


def services(urls: Sequence[str]) -> dict[str, ConnectApi]:
    """By key. Without addresses, the default one of a service on this machine."""
    found: dict[str, ConnectApi] = {}
    for url in urls or [DEFAULT_URL]:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        key, number = place, 1
        while key in found:
            number += 1
            key = f"{place}-{number}"
        found[key] = ConnectApi(
            url=f"{parts.scheme}://{place}{parts.path.rstrip('/')}",
            key=key,
            is_default=not urls,
            authorization=_basic(parts.username, parts.password),
        )
    return found


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    return "Basic " + base64.b64encode(f"{unquote(user)}:{unquote(password or '')}".encode()).decode()


def _read(answer: IO[bytes], deadline_s: float, bytes_max: int) -> bytes:
    """Raises OSError for an answer that is too slow or too large: a time-out of the socket sees each part alone."""
    body = bytearray()
    while chunk := answer.read(CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            raise OSError(f"its answer is larger than {bytes_max // MIB} MiB")
        if time.monotonic() > deadline_s:
            raise TimeoutError("its answer does not end")
    return bytes(body)


def _json(text: bytes) -> Any:  # noqa: ANN401
    return json.loads(text) if text.strip() else None


def _told(url: str, refused: urllib.error.HTTPError, deadline_s: float) -> Silent | Declined:
    if 300 <= refused.code < 400:
        return Silent(f"{url} sends requests on to another address, which the console does not follow")
    try:
        told = _json(_read(refused, deadline_s, 4 * MIB))
        why = str(told["message"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return Declined(refused.code, f"{url} answers with HTTP {refused.code}")
    return Declined(refused.code, why[:WHY_CHARS_MAX])


def _reason(failed: Exception) -> str:
    inner = getattr(failed, "reason", failed)
    if isinstance(inner, TimeoutError):
        return "no answer in time"
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)
