"""Injected faults take effect, and clients react as to real faults."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.base.errors import ErrorCode
from odradek.protocol.headers import request_frame
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.testing import Embedded
from support.waiting import wait_until
from traps.wire import Wire, batch


def send(broker: Embedded, count: int = 1, **config: object) -> list:
    outcomes: list = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "retry.backoff.ms": 10, **config}
    )
    for _ in range(count):
        producer.produce("t", b"x", on_delivery=lambda error, message: outcomes.append(error or message.offset()))
    producer.flush(20)
    return outcomes


def test_client_retries_a_retriable_error(odradek: Embedded) -> None:
    send(odradek)
    odradek.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert send(odradek) == [1]
    assert len(odradek.requests("Produce")) == 4


def test_client_raises_an_error_that_is_not_retriable(odradek: Embedded) -> None:
    send(odradek)
    odradek.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert [error.name() for error in send(odradek)] == ["TOPIC_AUTHORIZATION_FAILED"]
    assert send(odradek) == [1], "the fault was for one request"


def test_error_for_acks_0_closes_the_connection(odradek: Embedded) -> None:
    send(odradek)
    odradek.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    with Wire(odradek.port) as wire:
        wire.post(wire.produce_request("t", batch(b"x"), acks=0), 9)
        with pytest.raises((ConnectionError, EOFError)):
            wire.receive_frame()


def test_delay_holds_back_the_response_and_later_requests(odradek: Embedded) -> None:
    with Wire(odradek.port) as wire:
        wire.create_topic("t")
        odradek.delay("Produce", 300)
        started = time.monotonic()
        request = wire.produce_request("t", batch(b"x"))
        wire.post(request, 9)
        wire.post(request, 9)
        answers = [wire.collect(request, 9) for _ in range(2)]
    assert time.monotonic() - started >= 0.3
    offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answers]
    assert offsets == [0, 1]


def test_a_delayed_fetch_may_wait_for_records_afterwards(odradek: Embedded) -> None:
    with Wire(odradek.port) as reader, Wire(odradek.port) as writer:
        writer.create_topic("t")
        odradek.delay("Fetch", 50)
        request = reader.fetch_request("t", {0: 0}, max_wait_ms=20_000)
        reader.post(request, 12)
        writer.produce("t", batch(b"x"))
        _, answer = reader.collect(request, 12)
    assert answer.responses[0].partitions[0].high_watermark == 1


def test_a_fault_waits_for_a_request_that_the_broker_can_read(odradek: Embedded) -> None:
    odradek.fail("ApiVersions", "CLUSTER_AUTHORIZATION_FAILED")
    with Wire(odradek.port) as wire:
        # As newer clients ask: the reply names the versions that the broker supports.
        wire.send(request_frame(18, 99, 1, "trap", b""))
        assert ApiVersionsResponse.decode(wire.receive_frame()[4:], 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert wire.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert wire.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
    odradek.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    with Wire(odradek.port) as wire:
        wire.send(request_frame(0, 9, 1, "trap", b"\xff"))
        assert wire.is_closed()
    assert send(odradek) == [0]
    assert [request.version for request in odradek.requests("Produce")][:1] == [9]
    assert len(odradek.requests("Produce")) == 3, "the fault was for the first of two valid requests"


def test_client_reconnects_after_a_dropped_connection(odradek: Embedded) -> None:
    send(odradek)
    odradek.drop("Produce", times=2)
    assert send(odradek, **{"enable.idempotence": True}) == [1]


def test_writes_fail_while_the_disk_is_full(odradek: Embedded) -> None:
    send(odradek)
    odradek.fill_disk()
    [error] = send(odradek, **{"message.timeout.ms": 1000})
    assert error.name() in ("_MSG_TIMED_OUT", "KAFKA_STORAGE_ERROR")
    odradek.free_disk()


def test_advance_clock_makes_records_expire(odradek: Embedded) -> None:
    config = {"log.retention.check.interval.ms": "50", "log.retention.hours": "24", "log.roll.hours": "1"}
    with Embedded(config=config) as broker:
        send(broker, 3)
        broker.advance_clock(timedelta(days=2))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        place = TopicPartition("t", 0)

        def start() -> int:
            return admin.list_offsets({place: OffsetSpec.earliest()})[place].result().offset

        wait_until(lambda: start() == 3, start)


def test_requests_lists_all_requests(odradek: Embedded) -> None:
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0, "client.id": "me"})
    admin.list_topics(timeout=60)
    assert {request.api for request in odradek.requests()} >= {"ApiVersions", "Metadata"}
    assert {request.client_id for request in odradek.requests("Metadata")} == {"me"}


def test_unknown_api_or_error_is_named(odradek: Embedded) -> None:
    with pytest.raises(ValueError, match="there is no API 'Produse'; there are"):
        odradek.fail("Produse", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="there is no error 'NO_SUCH_ERROR'"):
        odradek.fail("Produce", "NO_SUCH_ERROR")


def test_delay_of_zero_causes_no_delay(odradek: Embedded) -> None:
    with Wire(odradek.port) as wire:
        wire.create_topic("t")
        odradek.delay("Produce", 0)
        wire.produce("t", batch(b"x"))
    assert send(odradek) == [1]
    with pytest.raises(ValueError, match="times=0: use 1 or more"):
        odradek.drop("Produce", times=0)


def test_calm_ends_all_faults(odradek: Embedded) -> None:
    odradek.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None)
    odradek.calm()
    assert send(odradek) == [0]
