"""Fetches a range from the leader of its partition over a plain socket, decoded by `raw_batches`.

It takes at most a third of the CPU time per record of librdkafka's message objects. It handles only the simple case: a
plaintext connection to the current leader. Anything else raises `HandOver`. Then librdkafka continues from that offset,
and handles moved leaders, lost records and unreachable brokers.
"""

from __future__ import annotations

import atexit
import socket
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from odradek.base.hosts import CONNECT_ERRORS
from odradek.protocol.batch import iter_batches
from odradek.protocol.consumer_fetch import FRAME, fetch_request, fetch_response
from odradek.protocol.malformed import MalformedMessage, MalformedRecords
from odradek.protocol.visible import checked, visible
from odradek.spark.options import ReadOptions
from odradek.spark.planning import OffsetRange
from odradek.spark.positions import Positions
from odradek.spark.raw_batches import decoded

Address = tuple[str, int]

# Options that this module supports or that do not affect it. With any other option, librdkafka reads.
PLAIN = frozenset({"bootstrap.servers", "client.id", "group.id", "isolation.level", "security.protocol"})

FETCH_BYTES_MAX = 2 << 20
FETCH_BYTES_MIN = 64 << 10
RECORD_BYTES_GUESS = 1 << 10
FRAME_BYTES_MAX = 128 << 20
TIMEOUT_S = 10.0
IDLE_MAX = 4

_idle: OrderedDict[Address, Connection] = OrderedDict()


class HandOver(Exception):
    """This module cannot read further; librdkafka must continue."""


def suits(options: ReadOptions) -> bool:
    plain = options.kafka.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"
    return plain and options.kafka.keys() <= PLAIN


def fetched(
    leader: Address, options: ReadOptions, wanted: OffsetRange, positions: Positions | None = None
) -> Iterator[tuple[pa.RecordBatch | None, int]]:
    """Arrow batches, each with the offset up to which the range has been read. HandOver when it cannot continue."""
    try:
        connection = _idle.pop(leader, None) or Connection(leader)
        try:
            yield from _fetched(connection, options, wanted, positions)
        except BaseException:
            connection.close()
            raise
        _keep(connection)
    except (OSError, MalformedMessage, MalformedRecords) as problem:
        raise HandOver(str(problem)) from problem


def _fetched(
    connection: Connection, options: ReadOptions, wanted: OffsetRange, positions: Positions | None
) -> Iterator[tuple[pa.RecordBatch | None, int]]:
    position = wanted.start
    if position < wanted.end:
        connection.send(options, wanted, position)
    while position < wanted.end:
        records, aborted = connection.receive(wanted)
        batches = list(checked(iter_batches(records)))
        if not batches or batches[-1].header.next_offset <= position:
            raise HandOver(f"no records at offset {position}")
        # A batch may begin before the position, also in the middle of a range: another leader may batch differently.
        rest = replace(wanted, start=position)
        position = batches[-1].header.next_offset
        if position < wanted.end:  # the broker handles this request while the batches are decoded
            connection.send(options, wanted, position)
        seen = visible(batches, aborted if options.read_committed else ())
        yield from decoded(seen, rest, include_headers=options.include_headers, positions=positions)
        yield None, position


def request(number: int, options: ReadOptions, wanted: OffsetRange, position: int) -> bytes:
    client = options.kafka.get("client.id", "").encode()
    most = min(FETCH_BYTES_MAX, max(FETCH_BYTES_MIN, (wanted.end - position) * RECORD_BYTES_GUESS))
    return fetch_request(
        number,
        client,
        wanted.topic.encode(),
        wanted.partition,
        position,
        bytes_max=most,
        read_committed=options.read_committed,
    )


def response(number: int, frame: memoryview, wanted: OffsetRange) -> tuple[memoryview, list[tuple[int, int]]]:
    """The batches, and which transactions in them were aborted."""
    fetched = fetch_response(number, wanted.partition, frame)
    if fetched.error_code or fetched.throttle_time_ms or fetched.preferred_replica != -1:
        raise HandOver(
            f"error {fetched.error_code}, throttled for {fetched.throttle_time_ms} ms, "
            f"preferred replica {fetched.preferred_replica}"
        )
    return fetched.records, fetched.aborted


class Connection:
    """A connection to one broker, with at most one request in flight."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._number = 0
        try:
            self._socket = socket.create_connection(address, TIMEOUT_S)
        except CONNECT_ERRORS as refused:
            raise HandOver(str(refused)) from refused
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, options: ReadOptions, wanted: OffsetRange, position: int) -> None:
        self._number = (self._number + 1) & 0x7FFFFFFF
        self._socket.sendall(request(self._number, options, wanted, position))

    def receive(self, wanted: OffsetRange) -> tuple[memoryview, list[tuple[int, int]]]:
        (size,) = FRAME.unpack(self._exactly(FRAME.size))
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise HandOver(f"a frame of {size} bytes")
        return response(self._number, self._exactly(size), wanted)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, size: int) -> memoryview:
        frame = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(frame[filled:])
            if count == 0:
                raise HandOver("the broker closed the connection")
            filled += count
        return frame


def _keep(connection: Connection) -> None:
    if connection.address in _idle:
        connection.close()
        return
    _idle[connection.address] = connection
    if len(_idle) > IDLE_MAX:
        _idle.popitem(last=False)[1].close()


@atexit.register
def close_idle() -> None:
    while _idle:
        _idle.popitem()[1].close()
