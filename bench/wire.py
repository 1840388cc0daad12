"""A few Kafka requests by hand, so that every server under test is asked the same bytes by the same code."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from typing import Self

from crc32c import crc32c

PRODUCE, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS = 0, 2, 19, 20
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

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = string(name) + struct.pack(">ihii", partitions, 1, 0, 0)
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

    def await_leaders(self, topic: str, partitions: int, within_s: float = 30.0) -> None:
        """Until each partition takes a question about its log: after that it takes records too."""
        deadline = time.monotonic() + within_s
        for partition in range(partitions):
            while True:
                try:
                    self.end_offset(topic, partition)
                    break
                except Refused:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
