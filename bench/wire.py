"""A few hand-written Kafka requests, so that every server under test gets the same bytes from the same code."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from crc32c import crc32c

PRODUCE, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_QUORUM = 0, 2, 3, 19, 20, 55
TOPIC_EXISTS = 36
LATEST = -1


class Refused(Exception):
    """A server answered with an error code."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error {code}")
        self.code = code


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def compact_string(text: str) -> bytes:
    return uvarint(len(text) + 1) + text.encode()


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def one_record_batch(value: bytes) -> bytes:
    def zigzag(number: int) -> bytes:
        return uvarint(number << 1 ^ number >> 63)

    body = b"\0" + zigzag(0) + zigzag(0) + zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
    now_ms = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + zigzag(len(body)) + body
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered)) + covered


class Client:
    """One blocking connection."""

    def __init__(self, port: int, timeout_s: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(self, key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
        self._correlation += 1
        header = struct.pack(">hhi", key, version, self._correlation) + string("bench") + (b"\0" if flexible else b"")
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        reply = self._receive(struct.unpack(">i", self._receive(4))[0])
        return reply[5 if flexible else 4 :]

    def _receive(self, count: int) -> bytes:
        out = bytearray()
        while len(out) < count:
            chunk = self._socket.recv(count - len(out))
            if not chunk:
                raise ConnectionError("the server closed the connection")
            out += chunk
        return bytes(out)

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]] = ((1,),)) -> None:
        """`replicas` of each partition, its leader first."""
        placed = b"".join(struct.pack(f">ii{len(ids)}i", index, len(ids), *ids) for index, ids in enumerate(replicas))
        topic = string(name) + struct.pack(">ihi", -1, -1, len(replicas)) + placed + struct.pack(">i", 0)
        body = struct.pack(">i", 1) + topic + struct.pack(">i?", 30_000, False)
        reply = self.request(CREATE_TOPICS, 2, body)
        (code,) = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(name))
        if code not in (0, TOPIC_EXISTS):
            raise Refused(f"create {name}", code)

    def delete_topic(self, name: str) -> None:
        reply = self.request(DELETE_TOPICS, 1, struct.pack(">i", 1) + string(name) + struct.pack(">i", 30_000))
        (code,) = struct.unpack_from(">h", reply, 4 + 4 + 2 + len(name))
        if code:
            raise Refused(f"delete {name}", code)

    def produce(self, topic: str, batches: Iterable[tuple[int, bytes]], acks: int = 1) -> None:
        """One request with one batch for each given partition."""
        parts = [struct.pack(">i", index) + uvarint(len(batch) + 1) + batch + b"\0" for index, batch in batches]
        body = b"\0" + struct.pack(">hi", acks, 30_000) + b"\2" + compact_string(topic)
        body += uvarint(len(parts) + 1) + b"".join(parts) + b"\0\0"
        reply = self.request(PRODUCE, 9, body, flexible=True)
        count, position = read_uvarint(reply, 1 + len(compact_string(topic)))
        for _ in range(count - 1):
            _index, code = struct.unpack_from(">ih", reply, position)
            if code:
                raise Refused(f"produce to {topic}", code)
            position += 4 + 2 + 8 + 8 + 8 + 3

    def end_offset(self, topic: str, partition: int = 0) -> int:
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, LATEST)
        reply = self.request(LIST_OFFSETS, 1, body)
        code, _timestamp, offset = struct.unpack_from(">hqq", reply, 4 + 2 + len(topic) + 4 + 4)
        if code:
            raise Refused(f"end offset of {topic}", code)
        return int(offset)

    def brokers(self) -> dict[int, int]:
        """The port of each broker."""
        return self._metadata(struct.pack(">i", 0)).brokers

    def partitions(self, topic: str) -> list[PartitionState]:
        return self._metadata(struct.pack(">i", 1) + string(topic)).partitions

    def _metadata(self, wanted: bytes) -> Metadata:
        reply = Reader(self.request(METADATA, 1, wanted))
        brokers = {}
        for _ in range(reply.int32()):
            node_id, _host, port, _rack = reply.int32(), reply.string(), reply.int32(), reply.string()
            brokers[node_id] = port
        reply.int32()  # the controller
        partitions: dict[int, PartitionState] = {}
        for _ in range(reply.int32()):
            code, name, _internal = reply.int16(), reply.string(), reply.int8()
            if code:
                raise Refused(f"metadata of {name}", code)
            for _ in range(reply.int32()):
                code, index, leader = reply.int16(), reply.int32(), reply.int32()
                replicas, in_sync = reply.int32s(), reply.int32s()
                partitions[index] = PartitionState(code, brokers.get(leader, 0), len(replicas), len(in_sync))
        return Metadata(brokers, [partitions[index] for index in sorted(partitions)])

    def active_controller(self) -> int:
        """The leader of the metadata log."""
        topic = "__cluster_metadata"
        body = b"\2" + compact_string(topic) + b"\2" + struct.pack(">i", 0) + b"\0\0\0"
        reply = self.request(DESCRIBE_QUORUM, 0, body, flexible=True)
        (code,) = struct.unpack_from(">h", reply)
        partition_code, leader = struct.unpack_from(">hi", reply, 2 + 1 + len(compact_string(topic)) + 1 + 4)
        if code or partition_code:
            raise Refused("describe the quorum", code or partition_code)
        return int(leader)


class PartitionState(NamedTuple):
    code: int
    leader_port: int
    replicas: int
    in_sync: int

    def is_whole(self) -> bool:
        return not self.code and self.leader_port > 0 and self.in_sync == self.replicas


class Metadata(NamedTuple):
    brokers: dict[int, int]
    partitions: list[PartitionState]


class Reader:
    """Fields of a reply that is not flexible, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int8(self) -> int:
        return self._number(">b", 1)

    def int16(self) -> int:
        return self._number(">h", 2)

    def int32(self) -> int:
        return self._number(">i", 4)

    def int32s(self) -> list[int]:
        return [self.int32() for _ in range(self.int32())]

    def string(self) -> str:
        length = max(self.int16(), 0)
        self._position += length
        return self._data[self._position - length : self._position].decode()

    def _number(self, kind: str, size: int) -> int:
        (value,) = struct.unpack_from(kind, self._data, self._position)
        self._position += size
        return int(value)
