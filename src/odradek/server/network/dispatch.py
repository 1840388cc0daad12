"""From a frame to its handler and back to a reply.

On a request for an API or version that is not served the connection is closed, as in Kafka: the client would understand
no answer. The only exception is ApiVersions, whose refusal every client understands. An exception that escapes a
handler is a bug: it is logged once and closes only this connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import InvariantBroken
from odradek.protocol.error_codes import error_codes
from odradek.protocol.headers import API_VERSIONS, RequestHeader, decode_request_header, response_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.server.network.request import (
    Api,
    Connection,
    FrameApi,
    Host,
    ListenerConnection,
    Parts,
    ReplySlot,
    RequestContext,
)

logger = logging.getLogger(__name__)

FAILED = "%s %d of %s failed"

H = TypeVar("H", bound=Host)


class Dispatcher(Generic[H]):
    """Dispatches the requests of one listener; each gets its own `context` on `host`."""

    __slots__ = ("_apis", "_context", "_host")

    def __init__(self, host: H, context: Callable[[H, Connection, int, int, str | None], RequestContext]) -> None:
        self._host = host
        self._apis = dict(host.apis)
        self._context = context

    def handle(self, connection: ListenerConnection, frame: memoryview, position: int, end: int) -> Parts | None:
        """The reply's parts (none: no reply), or None when it comes later."""
        try:
            header = decode_request_header(frame, position, end)
        except MalformedMessage as broken:
            connection.end(str(broken))
            return []
        key, version, correlation_id, client_id, body = header
        api = self._apis.get(key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            return self._not_served(connection, header)
        ctx = self._context(self._host, connection, version, correlation_id, client_id)
        ctx.api = api
        connection.request = ctx
        observer = connection.observer
        if observer is not None:
            # Here and not in a method: each request comes here, and a call costs more than this.
            observed = observer.apis[key]
            observed.requests[version] += 1
            observed.until_measured -= 1
            if observed.until_measured <= 0:
                connection.measure(ctx, observed, end - position)
        parts: Parts | None = []
        try:
            if isinstance(api, FrameApi):
                parts = api.handle(ctx, frame, body, end)
            else:
                parts = self._handle_decoded(api, ctx, frame, body, end)
        except MalformedMessage as broken:
            ctx.note_error(ErrorCode.INVALID_REQUEST)
            connection.end(f"{name_of(api)} {version} cannot be read: {broken}")
        except InvariantBroken as broken:
            self._stop_node(broken)
        except Exception:
            logger.exception(FAILED, name_of(api), version, connection.client_host)
            ctx.note_error(ErrorCode.UNKNOWN_SERVER_ERROR)
            connection.end(f"{name_of(api)} failed")
        if observer is not None and (parts is None or ctx.errors):
            observer.handled(ctx, parts)
        return parts

    def _handle_decoded(
        self, api: Api, ctx: RequestContext, frame: memoryview, position: int, end: int
    ) -> Parts | None:
        request, _ = api.request.decode_first(frame, ctx.version, position, end)
        try:
            response = api.handle(ctx, request)
        except KafkaError as refused:
            response = _refused(api, ctx, request, refused)
        if isinstance(response, Message):
            return [self._reply(api, ctx, response)]
        slot = ctx.connection.park(stop_reading=True)
        self._host.spawner.spawn(name_of(api), self._answer_later(api, ctx, request, response, slot))
        return None

    async def _answer_later(
        self, api: Api, ctx: RequestContext, request: Message, response: Awaitable[Message], slot: ReplySlot
    ) -> None:
        try:
            try:
                answer = await response
            except KafkaError as refused:
                answer = _refused(api, ctx, request, refused)
            parts: Parts = [self._reply(api, ctx, answer)]
        except InvariantBroken:
            raise
        except Exception:
            logger.exception(FAILED, name_of(api), ctx.version, ctx.client_host)
            ctx.note_error(ErrorCode.UNKNOWN_SERVER_ERROR)
            ctx.connection.end(f"{name_of(api)} failed")
            parts = []
        # Not above: what it raised would fill the slot a second time.
        slot.fill(parts)

    def _reply(self, api: Api, ctx: RequestContext, response: Message) -> bytes:
        if ctx.connection.observer is not None:
            ctx.errors = error_codes(response)
        return response_frame(api.key, ctx.version, ctx.correlation_id, response.encode(ctx.version))

    def _not_served(self, connection: ListenerConnection, header: RequestHeader) -> Parts:
        api = self._apis.get(header.api_key)
        if header.api_key == API_VERSIONS and api is not None:
            from odradek.server.api.p18_api_versions import unsupported_version

            # It counts as a request of the version in which it is answered.
            ctx = self._context(self._host, connection, 0, header.correlation_id, header.client_id)
            ctx.api = api
            ctx.note_error(ErrorCode.UNSUPPORTED_VERSION)
            if connection.observer is not None:
                connection.observer.apis[API_VERSIONS].requests[0] += 1
                connection.observer.handled(ctx, [])
            body = unsupported_version(self._apis).encode(0)
            return [response_frame(API_VERSIONS, 0, header.correlation_id, body)]
        what = f"API {header.api_key}" if api is None else f"{name_of(api)} {header.api_version}"
        connection.end(f"{what} is not served")
        return []

    def _stop_node(self, broken: InvariantBroken) -> None:
        self._host.spawner.spawn("request", _raised(broken))


async def _raised(broken: InvariantBroken) -> None:
    raise broken


def _refused(api: Api, ctx: RequestContext, request: Message, refused: KafkaError) -> Message:
    if api.refuse is None:
        raise refused
    return api.refuse(ctx, request, refused)


def name_of(api: Api | FrameApi) -> str:
    return api.handle.__module__.rpartition(".")[2]
