"""Administrative requests reach any broker; the active controller answers them.

A broker forwards such a request in an Envelope that names the client, and returns the controller's answer. While no
controller leads, or the leader is gone or deposed, the broker retries until the timeout, as in Kafka: a request whose
answer was lost may be executed twice. An API wrapped by `forwarded` runs its own handler while the controller is in
this process. It does so, too, when no controller was reached in time: the handler then raises NotController.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace

from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.invariants import InvariantBroken
from odradek.base.ports import Clock
from odradek.protocol.envelope import encode_address, encode_principal
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.p58_envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.schema import Message
from odradek.protocol.wire import skip_tagged
from odradek.server.api import p55_describe_quorum, p80_add_raft_voter, p81_remove_raft_voter
from odradek.server.controller.controller import Controller
from odradek.server.controller.controller_channel import Leadership
from odradek.server.network.peers import Peers, PeerUnavailable, response_class
from odradek.server.network.request import Api, ControllerContext, FrameApi, RequestContext

logger = logging.getLogger(__name__)

# What clients may ask of the controller through a broker.
FORWARDABLE = (19, 20, 33, 37, 43, 44, 45, 46, 55, 57, 64, 80, 81)

# Not the connection for heartbeats: a decision that waits for its commit must not delay them.
PURPOSE = "forwarding"
ENVELOPE_VERSION = 0
PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 500
LAST_WORDS_MS = 500
# Admin clients wait this long for a reply.
TIMEOUT_MS = 30_000


class Refused(Exception):
    """The controller answered the envelope itself with an error: it could not handle the request inside."""


class Forwarding:
    def __init__(
        self, *, node_id: BrokerId, quorum: Leadership, peers: Peers, clock: Clock, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._peers = peers
        self._clock = clock
        self._timeout_ms = timeout_ms

    @property
    def is_here(self) -> bool:
        return self._quorum.leader_id == self._node_id

    def leader_was(self, node_id: BrokerId) -> None:
        """Another node leads now: requests must not wait for the old leader, which may be dead.

        After a delay: the old leader may be about to answer, and the retry would execute the request a second time.
        """
        asyncio.get_running_loop().call_later(LAST_WORDS_MS / 1000, self._give_up, node_id)

    def _give_up(self, node_id: BrokerId) -> None:
        if self._quorum.leader_id != node_id:
            self._peers.hang_up(node_id, PURPOSE, "it is no longer the leader")

    def deadline_ms(self) -> int:
        return self._clock.monotonic_ms() + self._timeout_ms

    def is_over(self, deadline_ms: int) -> bool:
        return self._clock.monotonic_ms() >= deadline_ms

    async def forward(self, frame: bytes, deadline_ms: int, *, principal: str, client_host: str) -> bytes | None:
        """The reply to the request in `frame`, both from their headers on, without lengths.

        None: the controller is in this process, or was not found in time. Raises `Refused`.
        """
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=encode_principal(principal),
            client_host_address=encode_address(client_host),
        )
        pause_ms = PAUSE_MS_MIN
        while not self.is_here:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return None
            reply = await self._try(envelope, left_ms)
            if reply is not None:
                return reply
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        return None

    async def _try(self, envelope: EnvelopeRequest, timeout_ms: int) -> bytes | None:
        leader = self._quorum.leader_id
        if leader == NO_BROKER:
            return None
        try:
            answer: EnvelopeResponse = await self._peers.ask(
                leader, envelope, ENVELOPE_VERSION, timeout_ms=timeout_ms, purpose=PURPOSE
            )
        except PeerUnavailable as lost:
            logger.info("forwarding a request: %s", lost)
            return None
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return None
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            raise Refused(f"controller {leader} answered an envelope with error {answer.error_code}")
        return answer.response_data


async def answered(api: Api, ctx: RequestContext, request: Message) -> Message:
    """What this node answers. Raises NotController: it was not active, or deposed before the decision was committed."""
    try:
        answer = api.handle(ctx, request)
        return await answer if isinstance(answer, Awaitable) else answer
    except NotController:
        raise
    except KafkaError as refused:
        if api.refuse is None:
            raise
        return api.refuse(ctx, request, refused)


def forwarded(api: Api, forwarding: Forwarding) -> Api:
    """The API as a broker serves it."""

    async def sent(ctx: RequestContext, request: Message) -> Message:
        deadline_ms = forwarding.deadline_ms()
        while True:
            if not forwarding.is_here:
                frame = request_frame(
                    api.key, ctx.version, ctx.correlation_id, ctx.client_id, request.encode(ctx.version)
                )
                reply = await forwarding.forward(
                    frame[4:], deadline_ms, principal=ctx.principal, client_host=ctx.client_host
                )
                if reply is not None:
                    return read_reply(type(request), ctx.version, reply)
            try:
                return await answered(api, ctx, request)
            except NotController:
                if forwarding.is_over(deadline_ms):
                    raise
            await asyncio.sleep(PAUSE_MS_MIN / 1000)

    @functools.wraps(api.handle)
    async def handle(ctx: RequestContext, request: Message) -> Message:
        if api.keep is None:
            return await sent(ctx, request)
        rest, whole = api.keep(ctx, request)
        if rest is None:
            return whole(None)
        try:
            return whole(await sent(ctx, rest))
        except KafkaError as refused:
            if api.refuse is None:
                raise
            return whole(api.refuse(ctx, rest, refused))

    return replace(api, handle=handle)


def with_forwarding(apis: Mapping[int, Api | FrameApi], forwarding: Forwarding) -> dict[int, Api | FrameApi]:
    """The APIs that a broker serves; requests for the controller are forwarded."""
    return {
        key: forwarded(api, forwarding) if key in FORWARDABLE and isinstance(api, Api) else api
        for key, api in apis.items()
    }


def quorum_apis(controller: Controller, forwarding: Forwarding, soon: Forwarding) -> dict[int, Api]:
    """APIs that only the leader of the metadata log can answer. Without a leader, this node answers with an error.

    DescribeQuorum uses `soon`: its caller must learn quickly that there is no leader, and who the voters are.
    """

    def context(ctx: RequestContext) -> ControllerContext:
        return ControllerContext(controller, ctx.connection, ctx.version)

    def here(api: Api) -> Api:
        refuse = api.refuse
        if refuse is None:
            raise InvariantBroken(f"API {api.key} cannot answer that no controller leads")
        return replace(
            api,
            handle=lambda ctx, request: api.handle(context(ctx), request),
            refuse=lambda ctx, request, refused: refuse(context(ctx), request, refused),
        )

    changes = (p80_add_raft_voter.API, p81_remove_raft_voter.API)
    described = p55_describe_quorum.API
    return {
        described.key: forwarded(here(described), soon),
        **{api.key: forwarded(here(api), forwarding) for api in changes},
    }


def read_reply(request: type[Message], version: int, reply: bytes) -> Message:
    position = 4
    if has_tagged_response_header(request.KEY, version):
        try:
            position = skip_tagged(reply, 5, reply[4])
        except IndexError as broken:
            raise MalformedMessage("a forwarded reply ends inside its header") from broken
    return response_class(request).decode(reply, version, position)
