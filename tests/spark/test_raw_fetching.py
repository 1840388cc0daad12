"""The fast way against a leader that answers as it was told to, byte by byte."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from odradek.protocol.batch import encode_batch
from odradek.protocol.records import Record
from odradek.spark.options import batch_options
from odradek.spark.planning import OffsetRange
from odradek.spark.raw_fetching import ANSWER, ANSWERED, FRAME, TAIL, Address, HandOver, fetched

OPTIONS = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


def batch(count: int, base_offset: int = 0) -> bytes:
    return bytes(encode_batch([Record(value=b"v", timestamp=1)] * count, base_offset=base_offset))


def answer(number: int, batches: bytes) -> bytes:
    head = ANSWER.pack(number, 0, 0, 0, 1, 1) + b"t" + ANSWERED.pack(1, 0, 0, 100, 100, 0, 0)
    body = head + TAIL.pack(-1, len(batches)) + batches
    return FRAME.pack(len(body)) + body


@contextmanager
def leader(*answers: bytes) -> Iterator[tuple[Address, list[bytes]]]:
    """Gives these batches, one answer after the other, whatever it is asked; and what it was asked."""
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


def test_a_new_leader_may_have_cut_the_batches_otherwise():
    """It answers with the batch in which the asked-for offset lies, from wherever that begins."""
    with leader(batch(5), batch(10)) as (address, _):
        assert read(address, 0, 10) == list(range(10))


def test_an_answer_that_leads_nowhere_is_not_asked_for_again():
    with leader(batch(5), batch(5)) as (address, _), pytest.raises(HandOver, match="nothing there at offset 5"):
        read(address, 0, 10)


def test_quotas_and_logs_of_brokers_know_the_client_by_its_name():
    with leader(batch(5)) as (address, asked):
        assert read(address, 0, 5, **{"kafka.client.id": "shop"}) == list(range(5))
    assert b"\0\4shop" in asked[0]


def test_a_process_that_ends_closes_what_it_kept():
    """Python says so on stderr of each worker otherwise."""
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
