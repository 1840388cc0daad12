"""What is checked before an application sees a request: its size, and the name it was sent to."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odradek.web.errors import HttpError


class BodyLimit:
    """Refuses a body past the limit: by its announced length, or as soon as it has grown too far."""

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
        return HttpError(413, "the request's body is too large", f"at most {self._bytes_max} bytes are taken here")


class KnownNames:
    """Refuses requests for a host name that is not ours.

    A page from anywhere can point a name of its own at 127.0.0.1 (DNS rebinding) and would then read and steer a server
    that believes in loopback; the browser still sends that name as Host.
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
