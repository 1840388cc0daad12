"""Forwarding between a client, a broker and a controller, each on its own socket, with and without a leader."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from odradek.adapters.clock import SystemClock
from odradek.adapters.net import TcpNet
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.base.ids import NO_BROKER
from odradek.protocol.envelope import decode_address, decode_principal, encode_address, encode_principal
from odradek.protocol.headers import request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p03_metadata import MetadataRequest
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.p19_create_topics import CreatableTopicResult as Result
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from odradek.protocol.messages.p58_envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.security.authorizer import AllowAll
from odradek.server.api import p44_incremental_alter_configs as p44_api
from odradek.server.api import p58_envelope
from odradek.server.controller.forwarding import Forwarding, with_forwarding
from odradek.server.loggers import Loggers
from odradek.server.network.dispatch import Dispatcher
from odradek.server.network.listener import ClientListener, ConnectionLimits
from odradek.server.network.peers import Peers
from odradek.server.network.request import Api, BrokerContext, ControllerContext
from support.waiting import let_others_run

LONG_MS = 8_000
HERE, THERE = 1, 2


class Place:
    host = "127.0.0.1"
    port = 0


class Side:
    """A listener with two APIs of which the test is the handler."""

    def __init__(self, spawner, context, authorizer=None) -> None:
        self._context = context
        self.seen = []
        self.answers = []
        self.topics = Api(
            key=19, versions=(2, 7), request=CreateTopicsRequest, handle=self._create, refuse=self._refuse_to_create
        )
        self.quorum = Api(key=55, versions=(0, 1), request=DescribeQuorumRequest, handle=self._describe)
        self.broker = SimpleNamespace(
            apis={
                19: self.topics,
                55: self.quorum,
                58: p58_envelope.API,
                80: Api(key=80, versions=(0, 1), request=AddRaftVoterRequest, handle=self._add_voter),
                44: replace(p44_api.API, handle=self._alter),
                3: Api(key=3, versions=(0, 13), request=MetadataRequest, handle=self._describe),
            },
            authorizer=authorizer or AllowAll(),
            spawner=spawner,
            node_id=HERE,
            loggers=Loggers(logging.RootLogger(logging.WARNING)),
        )
        self.listener = ClientListener(TcpNet(), ConnectionLimits())

    async def start(self) -> None:
        await self.listener.bind("127.0.0.1", 0)
        self.listener.serve(Dispatcher(self.broker, self._context).handle)

    async def _create(self, ctx, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self.seen.append((ctx, request))
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(code, asyncio.Event):
            await code.wait()
            code = ErrorCode.NONE
        if code is ErrorCode.NOT_CONTROLLER:
            raise NotController(code)
        return CreateTopicsResponse(topics=[Result(name=topic.name, error_code=code) for topic in request.topics])

    def _refuse_to_create(self, _ctx, request: CreateTopicsRequest, refused: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[Result(name=topic.name, error_code=refused.code) for topic in request.topics]
        )

    def _alter(self, ctx, request: p44.IncrementalAlterConfigsRequest) -> p44.IncrementalAlterConfigsResponse:
        self.seen.append((ctx, request))
        if self.answers:
            raise NotController(self.answers.pop(0))
        return p44.IncrementalAlterConfigsResponse(
            responses=[
                p44.AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
                for each in request.resources
            ]
        )

    def _describe(self, ctx, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        self.seen.append((ctx, request))
        if self.answers:
            raise NotController(self.answers.pop(0))
        row = DescribeQuorumResponsePartitionData(error_code=0, leader_id=5)
        return DescribeQuorumResponse(topics=[DescribeQuorumResponseTopicData(partitions=[row])])

    def _add_voter(self, ctx, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        self.seen.append((ctx, request))
        code = self.answers.pop(0)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise NotController(code)
        return AddRaftVoterResponse(error_code=code, error_message="")


class Scene:
    def __init__(self, spawner, controller: Side, broker: Side, peers: Peers, client: Peers) -> None:
        self.controller = controller
        self.broker = broker
        self.peers = peers
        self.leader_id = THERE
        self._client = client

    def create(self, *names: str, version: int = 7):
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names])
        return asyncio.ensure_future(self._client.ask(HERE, request, version, timeout_ms=LONG_MS))

    def alter(self, request: p44.IncrementalAlterConfigsRequest):
        return asyncio.ensure_future(self._client.ask(HERE, request, 1, timeout_ms=LONG_MS))

    def describe(self):
        return asyncio.ensure_future(self._client.ask(HERE, DescribeQuorumRequest(), 1, timeout_ms=LONG_MS))

    def add_voter(self):
        return asyncio.ensure_future(self._client.ask(HERE, AddRaftVoterRequest(), 1, timeout_ms=LONG_MS))

    def envelope(self, **fields):
        return self._client.ask(THERE, EnvelopeRequest(**fields), 0, timeout_ms=LONG_MS)


def endpoint(side: Side) -> Place:
    place = Place()
    place.port = side.listener.port
    return place


@contextlib.asynccontextmanager
async def scene(*, timeout_ms: int = LONG_MS, authorizer=None):
    failures: list[object] = []
    spawner = AsyncioSpawner(lambda name, broken: failures.append((name, broken)))
    controller, broker = Side(spawner, ControllerContext, authorizer), Side(spawner, BrokerContext)
    await controller.start()
    clock = SystemClock()
    sides = {HERE: broker, THERE: controller}
    places = {THERE: endpoint(controller)}
    peers = Peers(net=TcpNet(), clock=clock, spawner=spawner, resolve=places.get, client_id="broker-1")
    client = Peers(
        net=TcpNet(), clock=clock, spawner=spawner, resolve=lambda node: endpoint(sides[node]), client_id="tool"
    )
    held = Scene(spawner, controller, broker, peers, client)
    held.forwarding = Forwarding(node_id=HERE, quorum=held, peers=peers, clock=clock, timeout_ms=timeout_ms)
    broker.broker.apis = with_forwarding(broker.broker.apis, held.forwarding)
    await broker.start()
    try:
        yield held
    finally:
        await client.close()
        await peers.close()
        await broker.listener.stop()
        await controller.listener.stop()
        await spawner.close()
        assert failures == []


def codes(response: CreateTopicsResponse) -> list[tuple[str, int]]:
    return [(row.name, row.error_code) for row in response.topics]


def levels_request(*names: str) -> p44.IncrementalAlterConfigsRequest:
    return p44.IncrementalAlterConfigsRequest(
        resources=[
            p44.AlterConfigsResource(
                resource_type=8 if name.isdigit() else 2,
                resource_name=name,
                configs=[p44.AlterableConfig(name="root", value="ERROR")],
            )
            for name in names
        ]
    )


def test_levels_of_loggers_are_changed_here_and_never_forwarded(run):
    async def scenario():
        async with scene() as held:
            answer = await held.alter(levels_request(str(HERE), "orders", str(THERE)))
            assert {row.resource_name: row.error_code for row in answer.responses} == {
                str(HERE): 0,
                "orders": 0,
                str(THERE): ErrorCode.INVALID_REQUEST,
            }
            ((_, forwarded),) = held.controller.seen
            assert [resource.resource_name for resource in forwarded.resources] == ["orders"]
            assert held.broker.broker.loggers.levels()["root"] == "ERROR"

    run(scenario())


def test_levels_of_loggers_change_without_a_controller(run):
    async def scenario():
        async with scene(timeout_ms=1) as held:
            held.leader_id = NO_BROKER
            (row,) = (await held.alter(levels_request(str(HERE)))).responses
            assert (row.error_code, held.broker.broker.loggers.levels()["root"]) == (0, "ERROR")
            held.broker.answers = [ErrorCode.NOT_CONTROLLER] * 1000
            answer = await held.alter(levels_request(str(HERE), "orders"))
            assert {row.resource_name: row.error_code for row in answer.responses} == {
                str(HERE): 0,
                "orders": ErrorCode.NOT_CONTROLLER,
            }

    run(scenario())


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_the_controller_answers_in_the_clients_name(run, version):
    async def scenario():
        async with scene() as held:
            assert codes(await held.create("a", "b", version=version)) == [("a", 0), ("b", 0)]
            ((ctx, request),) = held.controller.seen
            assert [topic.name for topic in request.topics] == ["a", "b"]
            assert (ctx.principal, ctx.client_host) == ("User:ANONYMOUS", "127.0.0.1")
            assert (ctx.client_id, ctx.version) == ("tool", version)
            assert held.broker.seen == []

    run(scenario())


def test_a_controller_in_this_process_is_called(run):
    async def scenario():
        async with scene() as held:
            held.leader_id = HERE
            assert codes(await held.create("a")) == [("a", 0)]
            assert (len(held.broker.seen), held.controller.seen) == (1, [])

    run(scenario())


def test_not_controller_is_retried_until_a_controller_answers(run):
    async def scenario():
        async with scene() as held:
            held.controller.answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE]
            assert codes(await held.create("a")) == [("a", 0)]
            assert len(held.controller.seen) == 3
            held.controller.answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert (await held.describe()).topics[0].partitions[0].leader_id == 5
            assert len(held.controller.seen) == 5
            held.controller.answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.DUPLICATE_VOTER]
            assert (await held.add_voter()).error_code == ErrorCode.DUPLICATE_VOTER
            assert len(held.controller.seen) == 7

    run(scenario())


def test_other_errors_are_returned_to_the_client(run):
    async def scenario():
        async with scene() as held:
            held.controller.answers = [ErrorCode.TOPIC_ALREADY_EXISTS]
            assert codes(await held.create("a")) == [("a", ErrorCode.TOPIC_ALREADY_EXISTS)]
            assert len(held.controller.seen) == 1

    run(scenario())


def test_apis_that_are_not_for_the_controller_are_not_forwarded(run):
    async def scenario():
        async with scene() as held:
            assert held.broker.broker.apis[3].handle == held.broker._describe
            assert held.broker.broker.apis[19].handle != held.broker._create

    run(scenario())


def test_without_a_leader_a_forwarded_request_waits_for_an_election(run):
    async def scenario():
        async with scene() as held:
            held.leader_id = NO_BROKER
            asked = held.create("a")
            await let_others_run()
            assert not asked.done()
            held.leader_id = THERE
            assert codes(await asked) == [("a", 0)]
            assert held.broker.seen == []

    run(scenario())


def test_a_broker_elected_meanwhile_answers_the_request_itself(run):
    async def scenario():
        async with scene() as held:
            held.leader_id = NO_BROKER
            asked = held.create("a")
            await let_others_run()
            held.leader_id = HERE
            assert codes(await asked) == [("a", 0)]
            assert len(held.broker.seen) == 1

    run(scenario())


@pytest.mark.parametrize("then", [HERE, THERE])
def test_a_broker_elected_but_not_active_yet_or_deposed_retries(run, then):
    """Admin clients do not retry NOT_CONTROLLER, so they must not get it during a change of controller."""

    async def scenario():
        async with scene() as held:
            held.leader_id = HERE
            held.broker.answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]
            asked = held.create("a")
            while not held.broker.seen:  # noqa: ASYNC110 (the handler has no event)
                await asyncio.sleep(0)
            held.leader_id = then
            assert codes(await asked) == [("a", 0)]
            assert (len(held.broker.seen), len(held.controller.seen)) == ((3, 0) if then == HERE else (1, 1))

    run(scenario())


def test_a_handler_that_answers_synchronously_is_retried_too(run):
    async def scenario():
        async with scene() as held:
            held.leader_id = HERE
            held.broker.answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert (await held.describe()).topics[0].partitions[0].error_code == 0
            assert len(held.broker.seen) == 2

    run(scenario())


def test_without_a_controller_in_time_the_brokers_own_handler_returns_not_controller(run):
    async def scenario():
        async with scene(timeout_ms=100) as held:
            held.leader_id = NO_BROKER
            held.broker.answers = [ErrorCode.NOT_CONTROLLER]
            assert codes(await held.create("a")) == [("a", ErrorCode.NOT_CONTROLLER)]

    run(scenario())


def test_a_request_is_retried_after_the_controllers_connection_is_lost(run):
    async def scenario():
        async with scene() as held:
            held.controller.answers = [asyncio.Event()]
            asked = held.create("a")
            while not held.controller.seen:  # noqa: ASYNC110 (the handler has no event)
                await asyncio.sleep(0)
            for connection in list(held.controller.listener._connections):
                connection.abort()
            assert codes(await asked) == [("a", 0)]
            assert len(held.controller.seen) == 2

    run(scenario())


def test_a_request_to_a_deposed_leader_is_retried_at_the_next_one(run):
    async def scenario():
        async with scene() as held:
            stuck = asyncio.Event()
            held.controller.answers = [stuck]
            asked = held.create("a")
            while not held.controller.seen:  # noqa: ASYNC110 (the handler has no event)
                await asyncio.sleep(0)
            held.leader_id = HERE
            held.forwarding.leader_was(THERE)
            assert codes(await asked) == [("a", 0)]
            assert len(held.broker.seen) == 1
            stuck.set()

    run(scenario())


def inner(body: bytes | None = None, *, key: int = 19, version: int = 7) -> bytes:
    if body is None:
        body = CreateTopicsRequest(topics=[CreatableTopic(name="a")]).encode(7)
    return request_frame(key, version, 77, "tool", body)[4:]


GOOD = {
    "request_data": inner(),
    "request_principal": encode_principal("User:alice"),
    "client_host_address": encode_address("::1"),
}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        pytest.param({}, ErrorCode.NONE, id="nothing"),
        pytest.param({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, id="no principal"),
        pytest.param(
            {"request_principal": b"\0\1" + encode_principal("User:a")[2:]},
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            id="a newer principal",
        ),
        pytest.param(
            {"request_principal": encode_principal("User:a")[:-2]},
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            id="half a principal",
        ),
        pytest.param({"client_host_address": b"12345"}, ErrorCode.INVALID_REQUEST, id="an address of 5 bytes"),
        pytest.param({"request_data": b""}, ErrorCode.UNSUPPORTED_VERSION, id="no request"),
        pytest.param({"request_data": inner()[:-3]}, ErrorCode.UNSUPPORTED_VERSION, id="half a request"),
        pytest.param({"request_data": inner() + b"\0"}, ErrorCode.UNSUPPORTED_VERSION, id="more than a request"),
        pytest.param({"request_data": inner(version=9)}, ErrorCode.UNSUPPORTED_VERSION, id="a version to come"),
        pytest.param(
            {"request_data": inner(DescribeQuorumRequest().encode(2), key=55, version=2)},
            ErrorCode.UNSUPPORTED_VERSION,
            id="a version that is not served",
        ),
        pytest.param(
            {"request_data": inner(MetadataRequest().encode(12), key=3, version=12)},
            ErrorCode.INVALID_REQUEST,
            id="what is not forwarded",
        ),
        pytest.param(
            {"request_data": inner(EnvelopeRequest(**GOOD).encode(0), key=58, version=0)},
            ErrorCode.INVALID_REQUEST,
            id="an envelope",
        ),
        pytest.param({"request_data": inner(b"", key=64, version=0)}, ErrorCode.INVALID_REQUEST, id="not served"),
    ],
)
def test_errors_of_the_envelope_itself(run, wrong, code):
    async def scenario():
        async with scene() as held:
            answer: EnvelopeResponse = await held.envelope(**GOOD | wrong)
            assert answer.error_code == code
            assert (answer.response_data is None) == (code != ErrorCode.NONE)
            assert len(held.controller.seen) == (code == ErrorCode.NONE)
            if code == ErrorCode.NONE:
                ((ctx, _),) = held.controller.seen
                assert (ctx.principal, ctx.client_host) == ("User:alice", "::1")

    run(scenario())


class Nobody:
    def authorize(self, principal, operation, resource_type, name) -> bool:
        return False


def test_only_a_broker_may_send_envelopes(run):
    async def scenario():
        async with scene(authorizer=Nobody()) as held:
            answer = await held.envelope(**GOOD)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert held.controller.seen == []

    run(scenario())


def test_a_refused_envelope_closes_the_clients_connection(run, caplog):
    async def scenario():
        async with scene(authorizer=Nobody()) as held:
            asked = held.create("a")
            with pytest.raises(Exception, match="closed the connection"):
                await asked

    run(scenario())
    assert "error 31" in caplog.text


def test_principals_and_addresses_in_kafkas_bytes():
    assert encode_principal("User:alice") == b"\0\0\5User\6alice\0\0"
    assert decode_principal(encode_principal("User:CN=a:b,O=é")) == "User:CN=a:b,O=é"
    assert encode_address("10.0.0.1") == b"\x0a\0\0\1"
    assert len(encode_address("fe80::1%eth0")) == 16
    assert encode_address("this node") == bytes(4)
    assert decode_address(encode_address("fe80::1")) == "fe80::1"
    with pytest.raises(MalformedMessage):
        decode_address(b"")
