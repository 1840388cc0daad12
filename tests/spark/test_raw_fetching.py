"""Raw fetching from a fake leader with prepared responses."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from odradek.protocol.batch import encode_batch
from odradek.protocol.consumer_fetch import ANSWER, ANSWERED, FRAME, TAIL
from odradek.protocol.records import Record
from odradek.spark.options import batch_options
from odradek.spark.planning import OffsetRange
from odradek.spark.raw_fetching import Address, HandOver, fetched

OPTIONS = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


def batch(count: int, base_offset: int = 0) -> bytes:
    return bytes(encode_batch([Record(value=b"v", timestamp=1)] * count, base_offset=base_offset))


def answer(number: int, batches: bytes) -> bytes:
    head = ANSWER.pack(number, 0, 0, 0, 1, 1) + b"t" + ANSWERED.pack(1, 0, 0, 100, 100, 0, 0)
    body = head + TAIL.pack(-1, len(batches)) + batches
    return FRAME.pack(len(body)) + body


@contextmanager
def leader(*answers: bytes) -> Iterator[tuple[Address, list[bytes]]]:
    """A fake leader that sends these batches, one per response, for any request; and the requests it received."""
    asked: list[bytes] = []

    def lead() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            for number, batches in enumerate(answers, 1):
                (size,) = FRAME.unpack(connection.recv(FRAME.size, socket.MSG_WAITALL))
                asked.append(connection.recv(size, socket.MSG_WAITALL))
                connection.sendall(answer(number, batches))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lead)
        thread.start()
        yield listener.getsockname(), asked
        thread.join()


def read(address: Address, start: int, end: int, **options: str) -> list[int]:
    wanted = OffsetRange(topic="t", partition=0, start=start, end=end)
    batches = [rows for rows, _ in fetched(address, batch_options(OPTIONS | options), wanted) if rows is not None]
    return [offset for rows in batches for offset in rows["offset"].to_pylist()]


def test_batches_may_have_other_bounds_on_a_new_leader():
    """The leader returns the whole batch that contains the requested offset, also if the batch begins earlier."""
    with leader(batch(5), batch(10)) as (address, _):
        assert read(address, 0, 10) == list(range(10))


def test_response_without_progress_hands_over_to_librdkafka():
    with leader(batch(5), batch(5)) as (address, _), pytest.raises(HandOver, match="no records at offset 5"):
        read(address, 0, 10)


def test_a_leader_with_an_impossible_host_hands_over_to_librdkafka():
    with pytest.raises(HandOver, match="label"):
        read(("a..b", 9092), 0, 10)


def test_fetch_request_carries_the_client_id():
    with leader(batch(5)) as (address, asked):
        assert read(address, 0, 5, **{"kafka.client.id": "shop"}) == list(range(5))
    assert b"\0\4shop" in asked[0]


def test_process_closes_idle_connections_when_it_ends():
    """Otherwise Python prints a warning on stderr of each worker."""
    script = """
import socket
from odradek.spark.raw_fetching import Connection, _keep
with socket.create_server(("127.0.0.1", 0)) as server:
    _keep(Connection(server.getsockname()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
