"""The default addresses of clients, and their log lines about an unreachable broker."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.client import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer
from odradek.client.configuring import SayOnce, addresses_of


def test_clients_connect_to_the_addresses_in_the_variable(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", bootstrap)

    async def both() -> tuple[list[int], list[bytes]]:
        async with AsyncProducer() as producer:
            await (await producer.send(topic, b"b"))
        async with AsyncConsumer(topic, stop_at_end=True) as consumer:
            return await AsyncAdmin().partitions(topic), [record.value async for record in consumer]

    with Producer() as producer:
        producer.send(topic, b"a").result(60)
    with Consumer(topic, stop_at_end=True) as consumer:
        assert [record.value for record in consumer] == [b"a"]
    assert Admin().partitions(topic) == [0, 1, 2]
    partitions, values = asyncio.run(both())
    assert (partitions, sorted(values)) == ([0, 1, 2], [b"a", b"b"])


def test_the_addresses_of_the_program_override_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "one.example:9092")
    assert (addresses_of("two.example"), addresses_of(None)) == ("two.example", "one.example:9092")
    monkeypatch.delenv("ODRADEK_BOOTSTRAP")
    assert addresses_of(None) == "127.0.0.1:9092"


def said(text: str, at: float) -> logging.LogRecord:
    record = logging.LogRecord("odradek.client", logging.WARNING, "", 0, text, None, None)
    record.created = at
    return record


def test_repeated_log_lines_are_dropped_for_a_while() -> None:
    once = SayOnce(again_after_s=30)
    refused = "FAIL [rdkafka#producer-1] 127.0.0.1:{}/bootstrap: Connection refused (after {}ms in state CONNECT)"
    told = [once.filter(said(refused.format(1, number), at=number)) for number in (0, 1, 29, 31, 32)]
    assert told == [True, False, False, True, False]
    assert once.filter(said("something else", at=32))
