"""From a frame to its handler and back to a reply.

An API or version that is not served costs the connection, as in Kafka: nothing could be answered that the client would
understand. The one exception is ApiVersions, whose refusal every client understands. An exception that escapes a
handler is a bug: it is logged once and costs this connection alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import cast

from odradek.base.invariants import InvariantBroken
from odradek.protocol.headers import API_VERSIONS, RequestHeader, decode_request_header, response_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.server.broker import Broker
from odradek.server.controller.controller import Controller
from odradek.server.network.request import Api, Connection, FrameApi, Parts, ReplySlot, RequestContext

logger = logging.getLogger(__name__)


class Dispatcher:
    """Of the client listener, or with a `Controller` and its context of the controller listener."""

    __slots__ = ("_apis", "_broker", "_context")

    def __init__(self, broker: Broker | Controller, context: type[RequestContext] = RequestContext) -> None:
        self._broker = cast("Broker", broker)
        self._apis = dict(broker.apis)
        self._context = context

    def handle(self, connection: Connection, frame: memoryview, position: int, end: int) -> Parts | None:
        """The reply's parts (none: no reply), or None when it comes later or never."""
        try:
            header = decode_request_header(frame, position, end)
        except MalformedMessage as broken:
            connection.end(str(broken))
            return None
        key, version, correlation_id, client_id, body = header
        api = self._apis.get(key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            return self._not_served(connection, header)
        ctx = self._context(self._broker, connection, version, correlation_id, client_id)
        try:
            if isinstance(api, FrameApi):
                return api.handle(ctx, frame, body, end)
            return self._handle_decoded(api, ctx, frame, body, end)
        except MalformedMessage as broken:
            connection.end(f"{name_of(api)} {version} cannot be read: {broken}")
        except InvariantBroken as broken:
            self._stop_node(broken)
        except Exception:
            logger.exception("%s %d of %s failed", name_of(api), version, connection.client_host)
            connection.end(f"{name_of(api)} failed")
        return None

    def _handle_decoded(
        self, api: Api, ctx: RequestContext, frame: memoryview, position: int, end: int
    ) -> Parts | None:
        request, _ = api.request.decode_first(frame, ctx.version, position, end)
        response = api.handle(ctx, request)
        if isinstance(response, Message):
            return [_reply(api, ctx, response)]
        slot = ctx.connection.park(stop_reading=True)
        self._broker.spawner.spawn(name_of(api), self._answer_later(api, ctx, response, slot))
        return None

    async def _answer_later(self, api: Api, ctx: RequestContext, response: Awaitable[Message], slot: ReplySlot) -> None:
        try:
            slot.fill([_reply(api, ctx, await response)])
        except InvariantBroken:
            raise
        except Exception:
            logger.exception("%s %d of %s failed", name_of(api), ctx.version, ctx.connection.client_host)
            ctx.connection.end(f"{name_of(api)} failed")
            slot.fill([])

    def _not_served(self, connection: Connection, header: RequestHeader) -> Parts | None:
        api = self._apis.get(header.api_key)
        if header.api_key == API_VERSIONS and api is not None:
            from odradek.server.api.p18_api_versions import unsupported_version

            body = unsupported_version(self._apis).encode(0)
            return [response_frame(API_VERSIONS, 0, header.correlation_id, body)]
        what = f"API {header.api_key}" if api is None else f"{name_of(api)} {header.api_version}"
        connection.end(f"{what} is not served")
        return None

    def _stop_node(self, broken: InvariantBroken) -> None:
        self._broker.spawner.spawn("request", _raised(broken))


async def _raised(broken: InvariantBroken) -> None:
    raise broken


def _reply(api: Api, ctx: RequestContext, response: Message) -> bytes:
    return response_frame(api.key, ctx.version, ctx.correlation_id, response.encode(ctx.version))


def name_of(api: Api | FrameApi) -> str:
    return api.handle.__module__.rpartition(".")[2]
