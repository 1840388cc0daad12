"""From frame to handler: what is not served, what cannot be read, and handlers that fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct

import pytest

from odradek.base.invariants import InvariantBroken
from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p00_produce import ProduceResponse
from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.server.api.table import load_apis
from odradek.server.network.listener import SWEEPS_PER_IDLE_TIME, ConnectionLimits
from odradek.server.network.request import Api, FrameApi
from support.data_broker import APIS, DataBroker, batch


def with_metadata(handle):
    return {**APIS, 3: Api(key=3, versions=(0, 13), request=MetadataRequest, handle=handle)}


def frame_of(header: bytes) -> bytes:
    return struct.pack(">i", len(header)) + header


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(request_frame(3, 12, 1, "x", b"\xff\xff\xff\xff\x0f" + bytes(20)), id="an array of 4 billion"),
        pytest.param(request_frame(0, 9, 1, "x", b"\x01"), id="half a produce"),
        pytest.param(request_frame(1, 12, 1, "x", b"\x01"), id="half a fetch"),
        pytest.param(request_frame(3, 99, 1, "x", b""), id="a version to come"),
        pytest.param(request_frame(0, 2, 1, "x", b""), id="a version long gone"),
        pytest.param(frame_of(struct.pack(">hhih", 4, 0, 1, -1)), id="LeaderAndIsr"),
        pytest.param(frame_of(struct.pack(">hhih", 999, 0, 1, -1)), id="nothing that exists"),
        pytest.param(frame_of(struct.pack(">hhih", -1, -1, -1, -1)), id="all ones"),
        pytest.param(frame_of(struct.pack(">hhi", 18, 0, 1)), id="no client id"),
        pytest.param(frame_of(struct.pack(">hhih", 18, 0, 1, 500) + b"short"), id="a client id that is not there"),
        pytest.param(frame_of(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"), id="a client id that is no text"),
    ],
)
def test_a_request_that_cannot_be_answered_closes_its_connection_and_logs_one_line(run, caplog, frame):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client, other = await broker.connect(), await broker.connect()
            client.send(client.produce_request("t", batch("before")), 9)
            client.writer.write(frame)
            correlation_id, _ = await client.receive(ProduceResponse, 9)
            assert correlation_id == 1
            assert await client.closed()
            assert (await other.produce("t", batch("other")))[0].base_offset == 1

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert len(caplog.records) == 1


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(run):
    async def scenario():
        async with DataBroker() as broker:
            client = await broker.connect()
            # The body is of an unknown version: it must not be read.
            client.writer.write(request_frame(18, 77, 5, "x", b"\xff\xff\xff"))
            correlation_id, answer = await client.receive(ApiVersionsResponse, 0)
            assert (correlation_id, answer.error_code) == (5, 35)
            assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 5)]
            again = await client.ask(
                ApiVersionsRequest(client_software_name="x", client_software_version="1"), ApiVersionsResponse, 3
            )
            assert again.error_code == 0

    run(scenario())


def test_a_handler_that_fails_closes_only_its_connection(run, caplog):
    def fails(ctx, request):
        raise RuntimeError("a bug")

    async def fails_later(ctx, request):
        await asyncio.sleep(0)
        raise RuntimeError("a bug")

    async def scenario(handle):
        async with DataBroker(apis=with_metadata(handle)) as broker:
            broker.create_topic("t")
            client, other = await broker.connect(), await broker.connect()
            client.send(MetadataRequest(), 12)
            assert await client.closed()
            assert (await other.produce("t", batch("x")))[0].error_code == 0

    for handle in (fails, fails_later):
        caplog.clear()
        run(scenario(handle))
        assert len([record for record in caplog.records if record.exc_info]) == 1


@pytest.mark.parametrize("reads_on", [True, False])
def test_a_handler_that_parks_and_then_fails_loses_its_connection_as_idle_at_the_latest(run, caplog, reads_on):
    """Its slot stays empty, so that the connection has a request to answer until it is closed as idle."""
    lost = []

    def parks_and_fails(ctx, frame, position, end):
        ctx.connection.park(stop_reading=not reads_on, on_lost=lambda: lost.append(ctx.correlation_id))
        raise RuntimeError("a bug")

    async def scenario():
        apis = {**APIS, 3: FrameApi(key=3, versions=(0, 13), advertised=(0, 13), handle=parks_and_fails)}
        async with DataBroker(apis=apis, limits=ConnectionLimits(idle_ms_max=-1)) as broker:
            broker.create_topic("t")
            client, other = await broker.connect(), await broker.connect()
            client.send(client.produce_request("t", batch("before")), 9)
            client.send(MetadataRequest(), 12)
            client.send(client.produce_request("t", batch("behind it")), 9)
            assert (await client.receive(ProduceResponse, 9))[0] == 1
            for _ in range(SWEEPS_PER_IDLE_TIME + 1):
                assert (await other.produce("t", batch("other")))[0].error_code == 0
                broker.listener._close_idle()
            with contextlib.suppress(ConnectionResetError):
                assert await client.closed()
            assert lost == [2]
            assert broker.partition("t").log.log_end_offset == 1 + SWEEPS_PER_IDLE_TIME + 1

    run(scenario())
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_broken_invariant_stops_the_node(run):
    def fails(ctx, request):
        raise InvariantBroken("two leaders")

    async def scenario():
        broker = DataBroker(apis=with_metadata(fails))
        async with broker:
            client = await broker.connect()
            client.send(MetadataRequest(), 12)
            while not broker.failures:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert isinstance(broker.failures.pop(), InvariantBroken)

    run(scenario())


def test_requests_pipelined_behind_a_slow_one_wait_and_keep_their_order(run):
    going = {}

    async def slow(ctx, request):
        await going["on"].wait()
        return MetadataResponse(cluster_id="late")

    async def scenario():
        going["on"] = asyncio.Event()
        async with DataBroker(apis=with_metadata(slow)) as broker:
            broker.create_topic("t")
            client, other = await broker.connect(), await broker.connect()
            client.send(client.produce_request("t", batch("first")), 9)
            client.send(MetadataRequest(), 12)
            client.send(client.produce_request("t", batch("third")), 9)
            client.send(client.fetch_request("t", {0: 0}), 12)
            assert (await client.receive(ProduceResponse, 9))[0] == 1
            assert (await other.produce("t", batch("second")))[0].base_offset == 1
            going["on"].set()
            assert (await client.receive(MetadataResponse, 12))[0] == 2
            correlation_id, produced = await client.receive(ProduceResponse, 9)
            assert (correlation_id, produced.responses[0].partition_responses[0].base_offset) == (3, 2)
            assert (await client.receive(FetchResponse, 12))[0] == 4

    run(scenario())


def test_the_table_advertises_produce_from_0_and_serves_each_api_once():
    apis = load_apis()
    assert apis[0].advertised == (0, 13)
    assert apis[0].versions == (3, 13)
    assert all(api.key == key for key, api in apis.items())
    assert all(api.advertised == api.versions for key, api in apis.items() if key != 0)
