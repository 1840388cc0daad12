"""No handler of the controller listener acts without permission, nor on a request that a broker forwards."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.envelope import encode_address, encode_principal
from odradek.protocol.error_codes import error_codes
from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p58_envelope import EnvelopeRequest
from odradek.security.authorizer import Operation
from odradek.server.api.controller_table import load_controller_apis
from odradek.server.controller.controller import Controller
from odradek.server.controller.forwarding import FORWARDABLE, read_reply
from odradek.server.network.request import ControllerContext
from server.api.test_every_api_asks import HIDES, NEEDS_NO_PERMISSION, REFUSALS, SAMPLES
from support.admin_broker import AdminBroker, Denying, OneConnection

TABLE = load_controller_apis()
CLIENT = "User:alice"


def controller(admin: AdminBroker) -> Controller:
    """Of its quorum only the image can be seen: whatever asks it for more has acted, and fails."""
    return Controller(
        node_id=BrokerId(1),
        cluster_id="c",
        config=BrokerConfig(),
        clock=None,
        rng=admin.broker.rng,
        spawner=None,
        authorizer=admin.broker.authorizer,
        apis=TABLE,
        quorum=SimpleNamespace(feed=SimpleNamespace(image=admin.broker.image), leader_id=BrokerId(1)),
        controller=admin.broker.controller,
    )


def answer(host: Controller, key: int, request, version: int):
    ctx = ControllerContext(host, OneConnection(), version)
    api = TABLE[key]

    async def answered():
        try:
            response = api.handle(ctx, request)
            return await response if inspect.isawaitable(response) else response
        except KafkaError as refused:
            return api.refuse(ctx, request, refused)

    return asyncio.run(answered())


def sample(key: int):
    if key in SAMPLES:
        return SAMPLES[key]
    request = TABLE[key].request
    return request(), request.VERSIONS[1]


def test_the_table_has_the_apis_of_a_controller():
    assert len(TABLE) >= 28


@pytest.mark.parametrize("key", sorted(TABLE.keys() - NEEDS_NO_PERMISSION - HIDES))
def test_an_api_of_the_controller_without_permission_is_refused(key):
    denying = Denying(lambda *_: True)
    admin = AdminBroker(authorizer=denying)
    admin.create_topic("secret")
    before = admin.broker.image
    request, version = (TABLE[1].request(), 17) if key == 1 else sample(key)
    codes = error_codes(answer(controller(admin), key, request, version))
    assert denying.asked, "it did not ask"
    assert codes
    assert set(codes) <= REFUSALS
    assert admin.broker.image is before, "it acted all the same"


@pytest.mark.parametrize("key", sorted(FORWARDABLE))
def test_a_forwarded_request_is_judged_by_the_permissions_of_its_client(key):
    """The broker that sends the envelope may do everything, the client inside it nothing."""
    denying = Denying(lambda operation, *_: operation is not Operation.CLUSTER_ACTION)
    admin = AdminBroker(authorizer=denying)
    admin.create_topic("secret")
    before = admin.broker.image
    request, version = sample(key)
    envelope = EnvelopeRequest(
        request_data=request_frame(key, version, 7, "tool", request.encode(version))[4:],
        request_principal=encode_principal(CLIENT),
        client_host_address=encode_address("127.0.0.1"),
    )
    response = answer(controller(admin), 58, envelope, 0)
    assert response.error_code == ErrorCode.NONE
    codes = error_codes(read_reply(type(request), version, response.response_data))
    assert codes
    assert set(codes) <= REFUSALS
    inside = [principal for principal, operation, *_ in denying.asked if operation is not Operation.CLUSTER_ACTION]
    assert set(inside) == {CLIENT}
    assert admin.broker.image is before, "it acted all the same"
