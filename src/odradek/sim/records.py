"""Record batches as the simulated clients and the checkers see them.

Does not use `protocol`, so that a bug there is not repeated here. Clients write without compression; a topic may store
gzip. A record without a key is represented by its value; `keyed` says how a record with a key is.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct, error

from crc32c import crc32c

from odradek.sim import keyed

# base offset, length, leader epoch, magic, crc; attributes, last delta, times, pid, epoch, sequence, count
_FRONT = Struct(">qiibI")
_BACK = Struct(">hiqqqhii")
HEADER_BYTES = _FRONT.size + _BACK.size
_CRC_FROM = _FRONT.size
_LENGTH_FROM = 12
_CODEC_MASK, _GZIP = 7, 1
TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBatch:
    """One whole batch with a right checksum."""

    base_offset: int
    last_offset: int
    crc: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    base_timestamp: int
    data: bytes
    attributes: int

    @property
    def is_gzip(self) -> bool:
        return self.attributes & _CODEC_MASK == _GZIP

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_empty(self) -> bool:
        """Compaction has removed its records."""
        return len(self.data) == HEADER_BYTES

    def commits(self) -> bool | None:
        """For a control batch: whether it commits a transaction. None: neither commit nor abort, or emptied."""
        body = self.data[HEADER_BYTES:]
        if not body:
            return None
        # length, attributes, time and offset delta, key of four bytes: version and type
        position = _read_varint(body, 0)[1] + 1
        for _ in range(3):
            _, position = _read_varint(body, position)
        kind = int.from_bytes(body[position + 2 : position + 4], "big")
        return {0: False, 1: True}.get(kind)

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + self.last_offset - self.base_offset

    def records(self) -> list[tuple[int, bytes]]:
        """By offset: the value, or the text of a record with a key. Clients see none of a control batch."""
        if self.is_control:
            return []
        body = self.data[HEADER_BYTES:]
        unpacked = gzip.decompress(body) if self.is_gzip else body
        return [(self.base_offset + delta, told) for delta, told in _records(unpacked, self.base_timestamp)]


def encode(
    values: Sequence[bytes],
    timestamp: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    body = b"".join(_record(delta, value) for delta, value in enumerate(values))
    return _batch(body, len(values), timestamp, producer_id, producer_epoch, base_sequence, timestamp, attributes)


def encode_keyed(
    told: Sequence[bytes],
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    times = [keyed.time_of(each) for each in told]
    body = b"".join(
        _keyed_record(delta, time - times[0], each) for delta, (time, each) in enumerate(zip(times, told, strict=True))
    )
    return _batch(body, len(told), times[0], producer_id, producer_epoch, base_sequence, max(times), attributes)


def _batch(
    body: bytes,
    count: int,
    first: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    latest: int,
    attributes: int = 0,
) -> bytes:
    back = _BACK.pack(attributes, count - 1, first, latest, producer_id, producer_epoch, base_sequence, count) + body
    return _FRONT.pack(0, _FRONT.size - _LENGTH_FROM + len(back), -1, 2, crc32c(back)) + back


def whole_batches(data: bytes) -> Iterator[SeenBatch]:
    """All batches up to the first that is incomplete or damaged."""
    position = 0
    while (batch := batch_at(data, position)) is not None:
        yield batch
        position += len(batch.data)


def batch_at(data: bytes, position: int) -> SeenBatch | None:
    try:
        base_offset, length, leader_epoch, magic, crc = _FRONT.unpack_from(data, position)
        attributes, last_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, sequence, _ = (
            _BACK.unpack_from(data, position + _CRC_FROM)
        )
    except error:
        return None
    end = position + _LENGTH_FROM + length
    if magic != 2 or length < HEADER_BYTES - _LENGTH_FROM or end > len(data):
        return None
    if crc32c(memoryview(data)[position + _CRC_FROM : end]) != crc:
        return None
    return SeenBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        crc=crc,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        leader_epoch=leader_epoch,
        base_timestamp=base_timestamp,
        data=data[position:end],
        attributes=attributes,
    )


def _record(offset_delta: int, value: bytes) -> bytes:
    # attributes, timestamp delta, offset delta, no key, value, no headers
    body = b"\0\0" + _varint(offset_delta) + _varint(-1) + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _keyed_record(offset_delta: int, later: int, told: bytes) -> bytes:
    key, text = keyed.key_of(told), keyed.text_of(told)
    if keyed.is_deletion(told):
        value, headers = _varint(-1), b"\2" + _varint(0) + _varint(len(text)) + text
    else:
        value, headers = _varint(len(text)) + text, b"\0"
    body = b"\0" + _varint(later) + _varint(offset_delta) + _varint(len(key)) + key + value + headers
    return _varint(len(body)) + body


def _records(body: bytes, base_timestamp: int) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(body):
        length, position = _read_varint(body, position)
        end = position + length
        later, position = _read_varint(body, position + 1)
        delta, position = _read_varint(body, position)
        key_length, position = _read_varint(body, position)
        key = body[position : position + max(key_length, 0)]
        value_length, position = _read_varint(body, position + len(key))
        value = body[position : position + max(value_length, 0)]
        if key_length < 0:
            yield delta, value
        else:
            text = value if value_length >= 0 else _name_in_header(body, position)
            yield delta, keyed.tell(key, text, base_timestamp + later, deletes=value_length < 0)
        position = end


def _name_in_header(batch: bytes, position: int) -> bytes:
    count, position = _read_varint(batch, position)
    if count == 0:
        return b""
    key_length, position = _read_varint(batch, position)
    length, position = _read_varint(batch, position + key_length)
    return batch[position : position + length]


def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
