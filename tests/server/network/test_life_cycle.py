"""Every request of an observed listener is counted; a measured one is reported once, at its end."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from odradek.base.errors import ErrorCode
from odradek.monitor.catalogue.requests import ERRORS
from odradek.monitor.registry import Registry
from odradek.protocol.messages.p00_produce import ProduceResponse
from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.p61_describe_producers import DescribeProducersRequest
from odradek.server.api.table import load_apis
from odradek.server.metrics.requests import RequestMetrics
from odradek.server.network.life_cycle import MEASURED_PER_SECOND, ObservedApi, Observer
from odradek.server.network.request import Api
from odradek.testing.faults import Fault, Faults
from support.data_broker import DataBroker, batch


class Ended(list):
    """Requests in the order of their ends, and a clock that moves by one at each reading."""

    now = 0

    def now_ns(self) -> int:
        self.now += 1
        return self.now

    async def count(self, count: int) -> None:
        while len(self) < count:  # noqa: ASYNC110 (the hook has no event)
            await asyncio.sleep(0)
        assert len(self) == count

    def keys(self) -> list[int]:
        return [request.api.key for request in self]


def observer(ended, apis, with_errors=None) -> Observer:
    counted = {key: ObservedApi(api.versions[1]) for key, api in apis.items()}
    return Observer(counted, (with_errors if with_errors is not None else []).append, ended.append, ended.now_ns)


@contextlib.asynccontextmanager
async def observed(**options):
    async with DataBroker(**options) as broker:
        ended = Ended()
        broker.listener.observer = observer(ended, broker.apis)
        broker.create_topic("t", 2)
        yield broker, ended, await broker.connect()
    times = [
        (one.received_ns, one.handled_ns, min(one.returned_ns, one.answered_ns), one.sending_ns, one.ended_ns)
        for one in ended
    ]
    assert all(list(each) == sorted(each) for each in times)
    assert len(set(map(id, ended))) == len(ended), "each ends once"


def test_a_request_has_its_sizes_times_and_errors_at_its_end(run):
    async def scenario():
        async with observed() as (_, ended, client):
            sent = client.produce_request("t", batch("x"))
            client.send(sent, 9)
            frame = await client.reader.readexactly(4)
            size = int.from_bytes(frame, "big")
            await client.reader.readexactly(size)
            await ended.count(1)
            (request,) = ended
            assert (request.api.key, request.version, request.client_id) == (0, 9, "test")
            assert (request.principal, request.client_host) == ("User:ANONYMOUS", "127.0.0.1")
            assert request.bytes_out == size + 4
            assert request.bytes_in > len(sent.encode(9))
            assert (list(request.errors), request.remote_ns) == ([], 0)
            assert request.queue_ns > 0 < request.local_ns
            assert request.send_ns > 0

    run(scenario())


def test_errors_are_counted_for_each_partition(run):
    async def scenario():
        async with observed() as (_, ended, client):
            wrong = batch("x")
            wrong[-1] ^= 1
            await client.produce("t", wrong, batch("y"), (7, batch("z")))
            assert list(ended[0].errors) == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            await client.fetch("t", {0: 99, 1: 0})
            assert list(ended[1].errors) == [ErrorCode.OFFSET_OUT_OF_RANGE]

    run(scenario())


def test_a_produce_without_acks_ends_without_a_reply(run):
    async def scenario():
        async with observed() as (_, ended, client):
            client.send(client.produce_request("t", batch("x"), acks=0), 9)
            await ended.count(1)
            assert ended[0].bytes_out == 0

    run(scenario())


def test_the_wait_of_a_parked_fetch_counts_as_remote_time(run):
    async def scenario():
        async with observed() as (broker, ended, client):
            client.send(client.fetch_request("t", {0: 0}, max_wait_ms=60_000, min_bytes=1), 12)
            while not broker.broker.parked_fetches:  # noqa: ASYNC110 (a parked fetch has no event)
                await asyncio.sleep(0)
            other = await broker.connect()
            await other.produce("t", batch("x"))
            await client.receive(FetchResponse, 12)
            await ended.count(2)
            assert ended.keys() == [0, 1]
            assert ended[1].remote_ns > 0
            assert ended[1].bytes_out > len(batch("x"))

    run(scenario())


def test_a_request_whose_connection_is_lost_ends_too(run):
    async def scenario():
        async with observed() as (broker, ended, client):
            client.send(client.fetch_request("t", {0: 0}, max_wait_ms=60_000, min_bytes=1), 12)
            while not broker.broker.parked_fetches:  # noqa: ASYNC110 (a parked fetch has no event)
                await asyncio.sleep(0)
            for connection in list(broker.listener._connections):
                connection.abort()
            await ended.count(1)
            assert (ended[0].api.key, ended[0].bytes_out) == (1, 0)

    run(scenario())


def test_pipelined_requests_end_in_the_order_of_their_replies(run):
    async def scenario():
        async with observed() as (broker, ended, client):
            broker.configure_topic("t", "flush.messages", "1")
            client.send(client.produce_request("t", batch("x"), acks=-1), 9)
            client.send(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)
            await client.receive(ProduceResponse, 9)
            await client.receive(ApiVersionsResponse, 3)
            await ended.count(2)
            assert ended.keys() == [0, 18]
            assert ended[1].reply_queue_ns > 0, "it waited for the reply of the first"

    run(scenario())


def test_requests_that_are_refused_or_fail_end_once(run):
    async def broken(*_):
        raise ZeroDivisionError

    async def scenario():
        failing = Api(key=60, versions=(0, 2), request=DescribeClusterRequest, handle=broken)
        async with observed(apis={**load_apis(), 60: failing}) as (broker, ended, client):
            client.send(DescribeClusterRequest(), 1)
            assert await client.closed()
            await ended.count(1)
            other = await broker.connect()
            other.writer.write(bytes([0, 0, 0, 12, 0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 0, 99]))  # Metadata, cut off
            assert await other.closed()
            await ended.count(2)
            assert ended.keys() == [60, 3]
            assert [one.bytes_out for one in ended] == [0, 0]

    run(scenario())


def test_a_listener_that_is_not_observed_reads_no_clock(run):
    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            await client.produce("t", batch("x"))
            (connection,) = broker.listener._connections
            assert not hasattr(connection.request, "received_ns")

    run(scenario())


def test_of_many_requests_all_are_counted_and_some_are_measured(run):
    async def scenario():
        async with DataBroker() as broker:
            ended, with_errors = Ended(), []
            seen = broker.listener.observer = observer(ended, broker.apis, with_errors)
            broker.create_topic("t", 1)
            client = await broker.connect()
            produce, fetch = seen.apis[0], seen.apis[1]
            for _ in range(10):
                await client.produce("t", batch("x"))
            assert [request.stands_for for request in ended] == [1] * 10
            produce.tick(10 / MEASURED_PER_SECOND / 5)  # as if these ten had come five times too fast
            for _ in range(100):
                await client.produce("t", batch("x"))
                await client.produce("nowhere", batch("x"))
            await client.fetch("t", {0: 0})
            assert produce.requests[9] == produce.total == 210
            assert (produce.without_error, fetch.without_error) == (110, 1)
            assert len(with_errors) == 100
            measured = [request.stands_for for request in ended if request.api.key == 0]
            assert 10 + 200 / 9 < len(measured) < 60
            assert 200 < sum(measured) <= 210
            assert all(1 <= stands_for < 10 for stands_for in measured)

    run(scenario())


def test_errors_of_parked_requests_are_counted_when_they_are_answered(run):
    async def scenario():
        async with DataBroker(settings={"min.insync.replicas": "1"}) as broker:
            ended, with_errors = Ended(), []
            seen = broker.listener.observer = observer(ended, broker.apis, with_errors)
            broker.create_topic("t", 1)
            seen.apis[1].tick(1.0)
            seen.apis[1].until_measured = 1_000  # the next ones are not measured
            client = await broker.connect()
            client.send(client.fetch_request("t", {0: 0}, max_wait_ms=60_000, min_bytes=1), 12)
            while not broker.broker.parked_fetches:  # noqa: ASYNC110 (a parked fetch has no event)
                await asyncio.sleep(0)
            assert seen.apis[1].total == 1
            assert seen.apis[1].without_error == 0
            broker.delete_topic("t")
            await client.receive(FetchResponse, 12)
            assert [list(request.errors) for request in with_errors] == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
            assert not ended

    run(scenario())


def test_requests_that_only_close_their_connection_count_as_errors(run):
    def broken(*_):
        raise ZeroDivisionError

    async def broken_later(*_):
        raise ZeroDivisionError

    async def scenario():
        failing = Api(key=60, versions=(0, 2), request=DescribeClusterRequest, handle=broken)
        later = Api(key=61, versions=(0, 0), request=DescribeProducersRequest, handle=broken_later)
        async with DataBroker(apis={**load_apis(), 60: failing, 61: later}) as broker:
            with_errors = []
            seen = broker.listener.observer = observer(Ended(), broker.apis, with_errors)
            cut_off = bytes([0, 0, 0, 12, 0, 3, 0, 9, 0, 0, 0, 1, 255, 255, 0, 99])
            for key, version, request in (
                (60, 1, DescribeClusterRequest()),
                (61, 0, DescribeProducersRequest()),
                (3, 0, cut_off),
            ):
                client = await broker.connect()
                if isinstance(request, bytes):
                    client.writer.write(request)
                else:
                    client.send(request, version)
                assert await client.closed()
                assert (seen.apis[key].total, seen.apis[key].without_error) == (1, 0)
            assert [list(each.errors) for each in with_errors] == [
                [ErrorCode.UNKNOWN_SERVER_ERROR],
                [ErrorCode.UNKNOWN_SERVER_ERROR],
                [ErrorCode.INVALID_REQUEST],
            ]

    run(scenario())


def test_an_unknown_version_of_api_versions_counts_as_an_error(run):
    async def scenario():
        async with DataBroker() as broker:
            with_errors = []
            seen = broker.listener.observer = observer(Ended(), broker.apis, with_errors)
            client = await broker.connect()
            client.writer.write(bytes([0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 1, 255, 255, 0]))
            await client.receive(ApiVersionsResponse, 0)
            assert seen.apis[18].requests[0] == 1
            assert [list(each.errors) for each in with_errors] == [[ErrorCode.UNSUPPORTED_VERSION]]

    run(scenario())


def test_an_error_code_that_this_version_does_not_know_is_counted(run):
    """A newer controller may answer a forwarded request with it."""

    def newer(*_):
        return DescribeClusterResponse(error_code=999)

    async def scenario():
        answering = Api(key=60, versions=(0, 2), request=DescribeClusterRequest, handle=newer)
        async with DataBroker(apis={**load_apis(), 60: answering}) as broker:
            registry = Registry(lambda: 0)
            broker.listener.observer = RequestMetrics(registry, lambda: 0).observer(broker.apis)
            client = await broker.connect()
            assert (await client.ask(DescribeClusterRequest(), DescribeClusterResponse, 1)).error_code == 999
            errors = {each.labels: each.value.count for each in registry.snapshot() if each.metric is ERRORS}
            assert errors == {("DescribeCluster", "UNKNOWN_SERVER_ERROR"): 1}

    run(scenario())


def test_a_request_that_a_test_delays_is_counted_once(run):
    async def scenario():
        async with DataBroker() as broker:
            with_errors = []
            seen = broker.listener.observer = observer(Ended(), broker.apis, with_errors)
            faults = Faults()
            broker.listener.handle = faults.intercept(broker.listener.handle)
            broker.create_topic("t", 1)
            client = await broker.connect()
            for api in ("Produce", "Fetch"):
                faults.obey("add", {"fault": Fault(api, times=2, delay_ms=1)})
            await client.produce("t", batch("x"))
            await client.produce("nowhere", batch("x"))
            await client.fetch("t", {0: 0})
            client.send(client.fetch_request("t", {0: 1}, max_wait_ms=60_000, min_bytes=1), 12)
            while not broker.broker.parked_fetches:  # noqa: ASYNC110 (a parked fetch has no event)
                await asyncio.sleep(0)
            produce, fetch = seen.apis[0], seen.apis[1]
            assert (produce.total, produce.without_error, produce.unanswered) == (2, 1, 0)
            assert (fetch.total, fetch.without_error, fetch.unanswered) == (2, 1, 1)

    run(scenario())


def measured_of(api: ObservedApi, requests: int) -> list[int]:
    """For how many requests each measured one stands."""
    measured = []
    for _ in range(requests):
        api.until_measured -= 1
        if api.until_measured <= 0:
            measured.append(api.take())
    api.requests[0] += requests
    return measured


def test_few_requests_of_a_burst_are_measured_and_they_stand_for_all():
    measured = measured_of(ObservedApi(0), 50_000)
    assert len(measured) < 350
    assert 45_000 < sum(measured) <= 50_000


def test_requests_after_a_short_pause_are_not_all_measured_again_but_after_a_long_one_they_are():
    api = ObservedApi(0)
    measured_of(api, 50_000)
    api.tick(1.0)
    api.tick(1.0)
    assert len(measured_of(api, 50_000)) < 350
    for _ in range(10):
        api.tick(1.0)
    assert measured_of(api, 40) == [pytest.approx(1, abs=1_000)] + [1] * 39
