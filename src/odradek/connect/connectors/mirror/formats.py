"""The records of MirrorMaker 2's own topics: offset syncs, checkpoints and heartbeats, byte for byte."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

_SHORT, _INT, _LONG, _TWO_LONGS = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">qq")
VERSION = 0


class Malformed(ValueError):
    """Bytes that MirrorMaker 2 would not have written."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` in the source's topic is at `downstream` in the mirrored topic."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def encoded(self) -> tuple[bytes, bytes]:
        key = _text(self.topic) + _INT.pack(self.partition)
        return key, _TWO_LONGS.pack(self.upstream, self.downstream)

    @classmethod
    def decoded(cls, key: bytes, value: bytes) -> Self:
        try:
            topic, at = _read_text(key, 0)
            (partition,) = _INT.unpack_from(key, at)
            upstream, downstream = _TWO_LONGS.unpack_from(value)
        except (struct.error, UnicodeDecodeError) as wrong:
            raise Malformed(f"this is not an offset sync: {wrong}") from wrong
        return cls(topic, partition, upstream, downstream)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group that committed `upstream` in the source can continue at `downstream` in the mirrored `topic`."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def encoded(self) -> tuple[bytes, bytes]:
        key = _text(self.group) + _text(self.topic) + _INT.pack(self.partition)
        value = _SHORT.pack(VERSION) + _TWO_LONGS.pack(self.upstream, self.downstream) + _text(self.metadata)
        return key, value

    @classmethod
    def decoded(cls, key: bytes, value: bytes) -> Self:
        try:
            group, at = _read_text(key, 0)
            topic, at = _read_text(key, at)
            (partition,) = _INT.unpack_from(key, at)
            _check_version(value)
            upstream, downstream = _TWO_LONGS.unpack_from(value, _SHORT.size)
            metadata, _ = _read_text(value, _SHORT.size + _TWO_LONGS.size)
        except (struct.error, UnicodeDecodeError) as wrong:
            raise Malformed(f"this is not a checkpoint: {wrong}") from wrong
        return cls(group, topic, partition, upstream, downstream, metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    source: str
    target: str
    timestamp_ms: int

    def encoded(self) -> tuple[bytes, bytes]:
        return _text(self.source) + _text(self.target), _SHORT.pack(VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def decoded(cls, key: bytes, value: bytes) -> Self:
        try:
            source, at = _read_text(key, 0)
            target, _ = _read_text(key, at)
            _check_version(value)
            (timestamp_ms,) = _LONG.unpack_from(value, _SHORT.size)
        except (struct.error, UnicodeDecodeError) as wrong:
            raise Malformed(f"this is not a heartbeat: {wrong}") from wrong
        return cls(source, target, timestamp_ms)


def _check_version(value: bytes) -> None:
    (version,) = _SHORT.unpack_from(value)
    if version != VERSION:
        raise Malformed(f"the record has version {version}, and only version {VERSION} is known")


def _text(value: str) -> bytes:
    data = value.encode()
    return _SHORT.pack(len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    begin = at + _SHORT.size
    end = begin + size
    if size < 0 or end > len(data):
        raise Malformed(f"a text of {size} bytes at {begin} does not fit into {len(data)} bytes")
    return data[begin:end].decode(), end
