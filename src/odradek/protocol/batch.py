"""Record batches, format 2: what producers send, what segments hold, what consumers get.

    0 base offset · 8 length of what follows · 12 leader epoch · 16 magic · 17 CRC-32C of what follows · 21 attributes
    23 last offset delta · 27 base timestamp · 35 max timestamp · 43 producer id · 51 producer epoch · 53 base sequence
    57 count of records · 61 records, or one compressed block of them

The broker writes base offset and leader epoch in place: they lie outside the checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec, compress, decompress
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import Record, decode_records, encode_records

ByteSource = bytes | bytearray | memoryview

MAGIC = 2
HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LOG_OVERHEAD = 12  # base offset and length: the bytes that the length does not count
MAGIC_POSITION = 16
CRC_POSITION = 17
CHECKED_FROM = 21  # the checksum covers everything from here on

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # set by compaction: the base timestamp says when tombstones expire (KIP-534)

NO_TIMESTAMP = -1
NO_SEQUENCE = -1

# Positions of fields that are changed in place.
OFFSET_LENGTH_EPOCH = Struct(">qii")
CRC = Struct(">I")
ATTRIBUTES = Struct(">h")
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP = Struct(">q")
MAX_TIMESTAMP_POSITION = 35


class BatchHeader(NamedTuple):
    base_offset: int
    length: int  # without the first 12 bytes
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def uses_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones of this batch expire. None before its first compaction."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


class Batch(NamedTuple):
    header: BatchHeader
    data: memoryview  # the whole batch, header included


def read_header(buffer: ByteSource, position: int = 0) -> BatchHeader:
    """The header at `position`. Its magic and length are checked, but not its checksum."""
    if len(buffer) - position < HEADER_BYTES:
        raise MalformedRecords(f"{len(buffer) - position} bytes are too few for a batch header of {HEADER_BYTES}")
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise MalformedRecords(f"batch format {header.magic} is not supported, only {MAGIC}")
    if header.length < HEADER_BYTES - LOG_OVERHEAD:
        raise MalformedRecords(f"a batch cannot have length {header.length}")
    return header


def iter_batches(buffer: ByteSource) -> Iterator[Batch]:
    """The whole batches in order. An incomplete last batch, as fetches may have it, is ignored."""
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        stop = position + header.size_bytes
        if stop > len(view):
            return
        yield Batch(header, view[position:stop])
        position = stop


def checksum(batch: ByteSource) -> int:
    return crc32c(memoryview(batch)[CHECKED_FROM:])


def has_valid_checksum(batch: ByteSource) -> bool:
    return bool(CRC.unpack_from(batch, CRC_POSITION)[0] == checksum(batch))


def stamp_append_time(batch: bytearray | memoryview, wall_ms: int) -> None:
    """Set LogAppendTime: every record gets the time `wall_ms`. The checksum is updated."""
    (attributes,) = ATTRIBUTES.unpack_from(batch, ATTRIBUTES_POSITION)
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME)
    MAX_TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_POSITION, wall_ms)
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytearray:
    """A batch of `records` with consecutive offsets from `base_offset` on."""
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    body = compress(codec, encode_records(records, base_timestamp))
    batch = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes | codec,
        max(len(records) - 1, 0),
        base_timestamp,
        max((record.timestamp for record in records), default=NO_TIMESTAMP),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch[HEADER_BYTES:] = body
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
    return batch


def packed_batch(header: BatchHeader, body: ByteSource) -> bytearray:
    """A batch with the fields of `header`, and length and checksum for `body`, which has the header's codec."""
    batch = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LOG_OVERHEAD, crc=0))
    batch[HEADER_BYTES:] = body
    CRC.pack_into(batch, CRC_POSITION, checksum(batch))
    return batch


def iter_records(batch: ByteSource) -> Iterator[Record]:
    """The records of one whole batch, decompressed with a size limit. Raises only MalformedRecords."""
    header = read_header(batch)
    if header.size_bytes != len(batch):
        raise MalformedRecords(f"the batch header says {header.size_bytes} bytes, but there are {len(batch)}")
    data = unpacked(header, memoryview(batch))
    append_time = header.max_timestamp if header.uses_append_time else None
    return decode_records(
        data,
        header.records_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        append_time,
    )


def unpacked(header: BatchHeader, batch: memoryview) -> bytes:
    """The bytes after the header, decompressed with a size limit."""
    body = batch[HEADER_BYTES:]
    return bytes(body if header.codec == Codec.NONE else decompress(header.codec, body))
