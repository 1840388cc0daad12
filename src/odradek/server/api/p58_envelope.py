"""Envelope 0: a broker forwards a client's request, with the client's name and address; the controller answers inside.

Errors of the envelope itself are for the broker. NOT_CONTROLLER, also used when the inner answer has that error, makes
it retry at the current leader. UNSUPPORTED_VERSION means that the request inside cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from odradek.base.errors import ErrorCode, NotController
from odradek.base.invariants import InvariantBroken
from odradek.protocol.envelope import decode_address, decode_principal
from odradek.protocol.headers import decode_request_header, response_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.p58_envelope import EnvelopeRequest, EnvelopeResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.controller.forwarding import FORWARDABLE, answered
from odradek.server.network.request import (
    UNKNOWN_SOFTWARE,
    Api,
    ClientSoftware,
    ControllerContext,
    ReplySlot,
    RequestContext,
)


@dataclass(slots=True, kw_only=True)
class ForwardedClient:
    """Stands for the client's connection, which is at the forwarding broker."""

    principal: str
    client_host: str
    request: RequestContext | None = None
    software: ClientSoftware = UNKNOWN_SOFTWARE
    client_port: ClassVar[int] = 0
    observer: ClassVar[None] = None

    def park(self, *, stop_reading: bool, on_lost: Callable[[], None] | None = None) -> ReplySlot:  # noqa: ARG002
        raise InvariantBroken("a forwarded request has no place in a reply order")

    def end(self, why: str) -> NoReturn:
        raise InvariantBroken(f"the connection of a forwarded request is not ours to end: {why}")


async def handle(ctx: ControllerContext, envelope: EnvelopeRequest) -> EnvelopeResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        principal = decode_principal(envelope.request_principal)
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        client_host = decode_address(envelope.client_host_address)
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    return await _answer(ctx, envelope.request_data, ForwardedClient(principal=principal, client_host=client_host))


async def _answer(ctx: ControllerContext, data: bytes, client: ForwardedClient) -> EnvelopeResponse:
    try:
        header = decode_request_header(data, 0, len(data))
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    api = ctx.controller.apis.get(header.api_key)
    if header.api_key not in FORWARDABLE or not isinstance(api, Api):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    version = header.api_version
    if not api.versions[0] <= version <= api.versions[1]:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        request = api.request.decode(data, version, header.body_position)
    except MalformedMessage:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    inner = ControllerContext(ctx.controller, client, version, header.correlation_id, header.client_id)
    try:
        response = await answered(api, inner, request)
    except NotController:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = response_frame(api.key, version, header.correlation_id, response.encode(version))
    return EnvelopeResponse(response_data=frame[4:])


API = Api(key=58, versions=(0, 0), request=EnvelopeRequest, handle=handle)
