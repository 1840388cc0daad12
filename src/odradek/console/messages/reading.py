"""Reads a range of offsets of one partition, in pieces: raw batches from its leader, or records of librdkafka.

Raw batches are not decoded here: a search skips most of them by looking at their bytes. They need a plaintext
connection to the current leader. After any problem librdkafka continues at that offset: it finds moved leaders,
reads old formats and retries. Neither joins a group or commits.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from odradek.base.hosts import CONNECT_ERRORS
from odradek.base.limits import KIB, MIB
from odradek.client.addresses import Address
from odradek.client.configuring import client_logger
from odradek.client.knocking import CONNECT_TIMEOUT_S
from odradek.protocol.batch import Batch, iter_batches, iter_records, unpacked
from odradek.protocol.consumer_fetch import FRAME, Fetched, fetch_request, fetch_response
from odradek.protocol.malformed import MalformedMessage, MalformedRecords
from odradek.protocol.records import Record
from odradek.protocol.visible import checked, visible

CLIENT_ID = "odradek-console"
FETCH_BYTES_MAX = 4 * MIB
FETCH_BYTES_MIN = 16 * KIB
FRAME_BYTES_MAX = 128 * MIB  # a single batch may be larger than what was asked for
ANSWER_S = 10.0
POLL_S = 0.2
RECORDS_AT_ONCE = 500
QUEUED_KBYTES = 8 * 1024
OFFSET_RESET_ERROR = "error"

Check = Callable[[], None]


class CannotRead(Exception):
    """The partition cannot be read now. The text says why."""


class Group(Protocol):
    """Records that were read together."""

    @property
    def count(self) -> int: ...

    def has_any(self, needles: Iterable[bytes]) -> bool:
        """Whether the bytes of the records contain one of these; True if that is unknown."""

    def records(self) -> Iterator[Record]: ...


@dataclass(frozen=True, slots=True)
class Piece:
    groups: list[Group]
    next_offset: int  # everything before it has been read
    size_bytes: int


class BatchGroup:
    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    @property
    def count(self) -> int:
        return max(self._batch.header.records_count, 0)

    def has_any(self, needles: Iterable[bytes]) -> bool:
        # Not kept: a piece may hold thousands of batches that are small until they are decompressed.
        body = unpacked(self._batch.header, self._batch.data)
        return any(needle in body for needle in needles)

    def records(self) -> Iterator[Record]:
        return iter_records(self._batch.data)


@dataclass(frozen=True, slots=True)
class MessageGroup:
    messages: list[Message]

    @property
    def count(self) -> int:
        return len(self.messages)

    def has_any(self, needles: Iterable[bytes]) -> bool:  # noqa: ARG002
        return True

    def records(self) -> Iterator[Record]:
        return map(record_of, self.messages)


def record_of(message: Message) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(message.key(), message.value(), headers, message.timestamp()[1], message.offset())


class Reader:
    """Reads partitions of one topic for one search. Used by one thread, in a `with` block."""

    def __init__(
        self, bootstrap: str, topic: str, leaders: dict[int, Address], check: Check, *, read_committed: bool = True
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._leaders = leaders
        self._check = check
        self._read_committed = read_committed
        self._connections: dict[Address, _Connection] = {}
        self._kafka: Consumer | None = None
        self._record_bytes = 1024.0  # of an offset, as far as this topic was read

    def offsets_in(self, size_bytes: int) -> int:
        """About how many offsets have this size."""
        return max(int(size_bytes / self._record_bytes), 1)

    def pieces(self, partition: int, start: int, end: int) -> Iterator[Piece]:
        """Everything in the range, in order. Ends early where uncommitted records begin. Raises CannotRead."""
        position = start
        leader = self._leaders.get(partition)
        if leader is not None:
            try:
                for piece in self._raw(leader, partition, start, end):
                    position = piece.next_offset
                    yield piece
            except (OSError, MalformedMessage, MalformedRecords, _Refused):
                self._drop(leader)
                del self._leaders[partition]
            else:
                return
        yield from self._slow(partition, position, end)

    # Raw batches

    def _raw(self, leader: Address, partition: int, start: int, end: int) -> Iterator[Piece]:
        connection = self._connections.get(leader)
        if connection is None:
            connection = self._connections[leader] = _Connection(leader)
        position = start
        if position < end:
            self._ask(connection, partition, position, end)
        while position < end:
            self._check()
            fetched = connection.answer(partition)
            if fetched.error_code or fetched.preferred_replica != -1:
                raise _Refused(f"error {fetched.error_code}")
            batches = list(checked(iter_batches(fetched.records)))
            if not batches:
                if len(fetched.records):
                    raise _Refused("an incomplete batch")
                return  # the rest of the range is not committed yet
            if batches[-1].header.next_offset <= position:
                raise _Refused(f"no progress at offset {position}")
            began, position = position, batches[-1].header.next_offset
            self._record_bytes = max(len(fetched.records) / (position - batches[0].header.base_offset), 1.0)
            if position < end:  # the broker handles this request while the batches are searched
                self._ask(connection, partition, position, end)
            seen: list[Group] = [
                BatchGroup(batch) if _is_within(batch, began, end) else _Trimmed(batch, began, end)
                for batch in visible(batches, fetched.aborted if self._read_committed else ())
            ]
            yield Piece(seen, min(position, end), len(fetched.records))

    def _ask(self, connection: _Connection, partition: int, position: int, end: int) -> None:
        guess = int((end - position) * self._record_bytes) + 1
        connection.ask(
            self._topic,
            partition,
            position,
            bytes_max=min(max(guess, FETCH_BYTES_MIN), FETCH_BYTES_MAX),
            read_committed=self._read_committed,
        )

    def _drop(self, leader: Address) -> None:
        connection = self._connections.pop(leader, None)
        if connection is not None:
            connection.close()

    # librdkafka

    def _slow(self, partition: int, start: int, end: int) -> Iterator[Piece]:
        if start >= end:
            return
        kafka = self._consumer()
        kafka.assign([TopicPartition(self._topic, partition, start)])
        position, deadline_s = start, time.monotonic() + ANSWER_S
        while position < end:
            self._check()
            messages = kafka.consume(RECORDS_AT_ONCE, POLL_S)
            good = []
            for message in messages:
                error = message.error()
                if error is None:
                    good.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka names its own codes so
                    position = end
                elif not error.retriable():
                    raise CannotRead(f"{self._topic}-{partition} at offset {position}: {error.str()}")
            if good:
                position = max(position, good[-1].offset() + 1)
                deadline_s = time.monotonic() + ANSWER_S
                within = [message for message in good if message.offset() < end]
                size = sum(len(message.value() or b"") + len(message.key() or b"") for message in within)
                yield Piece([MessageGroup(within)], min(position, end), size)
            elif position < end and time.monotonic() > deadline_s:
                raise CannotRead(f"the leader of {self._topic}-{partition} did not answer for {ANSWER_S:.0f} s")

    def _consumer(self) -> Consumer:
        if self._kafka is None:
            self._kafka = Consumer(reading_config(self._bootstrap, read_committed=self._read_committed))
        return self._kafka

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._kafka is not None:
            self._kafka.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reading_config(bootstrap: str, *, read_committed: bool) -> dict[str, Any]:
    """The settings of a consumer that joins no group, commits nothing, and keeps little in memory."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": CLIENT_ID,
        "client.id": CLIENT_ID,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": OFFSET_RESET_ERROR,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "queued.max.messages.kbytes": QUEUED_KBYTES,
        "fetch.message.max.bytes": MIB,
        "logger": client_logger(),
    }


def _is_within(batch: Batch, start: int, end: int) -> bool:
    return batch.header.base_offset >= start and batch.header.last_offset < end


class _Trimmed(BatchGroup):
    """A batch at an edge of the range: the leader returns whole batches."""

    __slots__ = ("_end", "_start")

    def __init__(self, batch: Batch, start: int, end: int) -> None:
        super().__init__(batch)
        self._start, self._end = start, end

    @property
    def count(self) -> int:
        header = self._batch.header
        return max(min(header.next_offset, self._end) - max(header.base_offset, self._start), 0)

    def records(self) -> Iterator[Record]:
        return (record for record in iter_records(self._batch.data) if self._start <= record.offset < self._end)


class _Refused(Exception):
    """This way of reading cannot continue."""


class _Connection:
    """To one broker, with at most one request in flight."""

    def __init__(self, address: Address) -> None:
        self._number = 0
        self._unanswered = False
        try:
            self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
        except CONNECT_ERRORS as refused:
            raise _Refused(str(refused)) from refused
        self._socket.settimeout(ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, topic: str, partition: int, offset: int, *, bytes_max: int, read_committed: bool) -> None:
        if self._unanswered:  # a reader left a range before its end
            self._frame()
        self._number = (self._number + 1) & 0x7FFFFFFF
        self._socket.sendall(
            fetch_request(
                self._number,
                CLIENT_ID.encode(),
                topic.encode(),
                partition,
                offset,
                bytes_max=bytes_max,
                read_committed=read_committed,
            )
        )
        self._unanswered = True

    def answer(self, partition: int) -> Fetched:
        return fetch_response(self._number, partition, self._frame())

    def _frame(self) -> memoryview:
        (size,) = FRAME.unpack(self._exactly(FRAME.size))
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise _Refused(f"a frame of {size} bytes")
        frame = self._exactly(size)
        self._unanswered = False
        return frame

    def _exactly(self, size: int) -> memoryview:
        frame = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(frame[filled:])
            if count == 0:
                raise _Refused("the broker closed the connection")
            filled += count
        return frame

    def close(self) -> None:
        self._socket.close()
