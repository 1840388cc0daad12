"""Checks of a request before the application: body size, host name, and origin."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.web.errors import HttpError

READING = ("GET", "HEAD", "OPTIONS")


class BodyLimit:
    """Refuses a body above the limit: by its Content-Length, or as soon as it exceeds the limit."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _announced(scope) > self._bytes_max:
            await self._refusal().response()(scope, receive, send)
            return
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._bytes_max:
                raise self._refusal()
            return message

        await self._app(scope, bounded, send)

    def _refusal(self) -> HttpError:
        return HttpError(413, "the request's body is too large", f"the limit is {self._bytes_max} bytes")


class OwnPages:
    """Refuses requests that change something and come from a page of another site in the same browser.

    Browsers send the origin of a request, older ones only in the Origin header. Programs send none, and are allowed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in READING or _is_own(scope):
            await self._app(scope, receive, send)
            return
        told = HttpError(403, "a page from another site may not do this", "use the page that this server shows")
        await told.response()(scope, receive, send)


def _is_own(scope: Scope) -> bool:
    if site := _header(scope, b"sec-fetch-site"):
        return site in ("same-origin", "none")
    origin = _header(scope, b"origin")
    return not origin or origin.partition("://")[2].lower() == _header(scope, b"host").lower()


class KnownNames:
    """Refuses requests for an unknown host name.

    Any site can point its own name at 127.0.0.1 (DNS rebinding) and could then read and control a server that trusts
    loopback. The browser still sends that name as Host.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_known(_host_name(scope)):
            await self._app(scope, receive, send)
            return
        told = HttpError(421, f"this server is not {_host_name(scope)!r}", "it answers to loopback names only")
        await told.response()(scope, receive, send)

    def _is_known(self, name: str) -> bool:
        return name == "localhost" or name in self._names or is_loopback(name)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_name(scope: Scope) -> str:
    host = _header(scope, b"host").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _announced(scope: Scope) -> int:
    length = _header(scope, b"content-length")
    return int(length) if length.isdecimal() else 0


def _header(scope: Scope, name: bytes) -> str:
    values: list[str] = [value.decode("latin-1") for header, value in scope["headers"] if header == name]
    return values[0] if values else ""
