"""A Produce request with as many batches as one may have: the broker's work grows with their number, not faster.

The work is counted as lines of the broker that are executed. A time would depend on the machine.
"""

from __future__ import annotations

import asyncio
import logging
import math
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import odradek
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import ProduceResponse
from odradek.protocol.wire import uvarint
from support.data_broker import Client, DataBroker, batch
from support.held_spawner import HeldSpawner
from support.loops import run_within_limit

BROKER = str(Path(odradek.__file__).parent)
FEW, MANY = 1_000, 10_000
# A request may have 100,000 elements in all its arrays.
ALLOWED, TOO_MANY = 99_000, 100_000
# Linear would be 1.0; the rest is for what is done once for a request.
AT_MOST = 1.2


class TooMuchWork(Exception):
    pass


class Steps:
    """Executed lines of the broker's code. Beyond `at_most` they raise, so that quadratic work does not take hours."""

    def __init__(self, at_most: float) -> None:
        self.count = 0
        self._at_most = at_most

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(BROKER) else None

    def _line(self, _frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        self.count += event == "line"
        if self.count > self._at_most:
            raise TooMuchWork(f"more than {self._at_most:.0f} lines")
        return self._line


def array(elements: list[bytes]) -> bytes:
    return uvarint(len(elements) + 1) + b"".join(elements)


def partition_data(index: int, data: bytes) -> bytes:
    return struct.pack(">i", index) + uvarint(len(data) + 1) + data + b"\0"


def topic_data(name: str, partitions: list[bytes]) -> bytes:
    return uvarint(len(name) + 1) + name.encode() + array(partitions) + b"\0"


class Written:
    """The body of a Produce request, version 9."""

    KEY = 0

    def __init__(self, topics: list[bytes], *, acks: int = 1, timeout_ms: int = 60_000) -> None:
        self._body = b"\0" + struct.pack(">hi", acks, timeout_ms) + array(topics) + b"\0"

    def encode(self, _version: int) -> bytes:
        return self._body


def same_partition(count: int, **fields: int) -> Written:
    return Written([topic_data("t", [partition_data(0, bytes(batch("x")))] * count)], **fields)


def many_partitions(count: int) -> Written:
    data = bytes(batch("x"))
    return Written([topic_data("t", [partition_data(index, data) for index in range(count)])])


def many_topics(count: int) -> Written:
    """An empty array counts as one element in versions with compact arrays, so a topic with a partition is three."""
    data = [partition_data(0, bytes(batch("x")))]
    return Written([topic_data(f"t{number}", data) for number in range(count // 3)])


def broken_batches(count: int) -> Written:
    data = batch("x")
    data[-1] ^= 1
    return Written([topic_data("t", [partition_data(0, bytes(data))] * count)])


async def codes(client: Client, request: Written) -> list[int]:
    answer = await client.ask(request, ProduceResponse, 9)
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]


OF_ALL_KINDS = pytest.mark.parametrize(
    ("written", "last_code"),
    [
        pytest.param(same_partition, ErrorCode.NONE, id="one partition"),
        pytest.param(many_partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="many partitions"),
        pytest.param(many_topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="many topics"),
        pytest.param(broken_batches, ErrorCode.CORRUPT_MESSAGE, id="batches with a wrong checksum"),
    ],
)


@OF_ALL_KINDS
def test_work_for_a_produce_request_is_linear_in_its_batches(written, last_code):
    async def steps(count: int, at_most: float) -> int:
        async with DataBroker() as broker:
            broker.create_topic("t", 100)
            client = await broker.connect()
            request, work = written(count), Steps(at_most)
            with work.counted():
                assert (await codes(client, request))[-1] == last_code
            return work.count

    few = run_within_limit(steps(FEW, math.inf))
    assert few > FEW
    run_within_limit(steps(MANY, few * AT_MOST * MANY / FEW))


@OF_ALL_KINDS
def test_a_produce_request_with_99_000_batches_is_answered_for_each(written, last_code):
    async def scenario() -> None:
        async with DataBroker() as broker:
            broker.create_topic("t", 100)
            got = await codes(await broker.connect(), written(ALLOWED))
            assert got[-1] == last_code
            assert len(got) == (ALLOWED // 3 if written is many_topics else ALLOWED)

    run_within_limit(scenario())


def test_a_produce_request_with_100_000_batches_closes_its_connection_and_appends_none(caplog):
    async def scenario() -> None:
        async with DataBroker() as broker:
            broker.create_topic("t")
            client = await broker.connect()
            client.send(same_partition(TOO_MANY), 9)
            assert await client.closed()
            assert broker.partition("t").log.log_end_offset == 0

    with caplog.at_level(logging.INFO):
        run_within_limit(scenario())
    assert "more elements than" in caplog.text


async def timed_out(client: Client) -> None:
    _, answer = await client.receive(ProduceResponse, 9)
    assert {part.error_code for part in answer.responses[0].partition_responses} == {ErrorCode.REQUEST_TIMED_OUT}


async def disconnected(client: Client) -> None:
    client.writer.close()


@pytest.mark.parametrize(("end", "timeout_ms"), [(timed_out, 100), (disconnected, 60_000)])
def test_work_for_batches_that_are_not_committed_is_linear_in_their_number(end, timeout_ms):
    async def steps(count: int) -> int:
        async with DataBroker() as broker:
            broker.create_topic("t", flush_messages="1")
            broker.commits._spawner = held = HeldSpawner(broker.spawner)
            client = await broker.connect()
            client.send(same_partition(count, acks=-1, timeout_ms=timeout_ms), 9)
            gate = await held.held.get()
            work = Steps(math.inf)
            with work.counted():
                await end(client)
                while broker.partition("t")._committing.waits:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            gate.set()
            return work.count

    assert run_within_limit(steps(1_000)) < AT_MOST * 4 * run_within_limit(steps(250))
