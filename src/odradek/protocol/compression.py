"""The four codecs of Kafka, for record batches and client telemetry, with a limit on the decompressed size.

A codec never writes more than the limit: the output buffer grows from an estimate up to it. Snappy data is raw
(librdkafka) or has xerial's framing (Java). Both can be read; the framed one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum

import cramjam

from odradek.base import limits
from odradek.protocol.malformed import DecompressedTooLarge, MalformedRecords

ByteSource = bytes | bytearray | memoryview


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


GZIP_DEFAULT_LEVEL, LZ4_DEFAULT_LEVEL = -1, 9

# Magic, version 1, oldest compatible version 1. Blocks follow, each after its length.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK_BYTES = 32 * limits.KIB

# Version 1, independent blocks (Java refuses others) of at most 64 KiB, no content checksum; the last byte checks that.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * limits.KIB
_LZ4_STORED = 1 << 31
_LZ4_HIGH_MIN, _LZ4_HIGH_MAX = 3, 12  # levels of the high-compression mode; Kafka's names go from 1 to 17

_FIRST_GUESS_BYTES = 64 * limits.KIB
_SNAPPY_EXPANSION_MAX = 64  # a two-byte element stands for at most 64 bytes
_OUTPUT_FULL = "failed to write whole buffer"


def decompress(codec: int, data: ByteSource, bytes_max: int | None = None) -> memoryview:
    """Raises only MalformedRecords or its subclass DecompressedTooLarge.

    Without `bytes_max`, `limits.decompressed_batch_bytes_max` is the limit.
    """
    bound = limits.decompressed_batch_bytes_max if bytes_max is None else bytes_max
    try:
        if codec == Codec.SNAPPY:
            return _unsnappy(memoryview(data), bound)
        if codec == Codec.GZIP:
            return _growing(cramjam.gzip.decompress_into, data, bound)
        if codec == Codec.LZ4:
            return _growing(cramjam.lz4.decompress_into, data, bound)
        if codec == Codec.ZSTD:
            return _growing(cramjam.zstd.decompress_into, data, bound)
    except cramjam.DecompressionError as broken:
        raise MalformedRecords(f"{Codec(codec).name} data is corrupt: {broken}") from broken
    raise MalformedRecords(f"codec {codec} is unknown")


def _growing(decompress_into: Callable[[ByteSource, bytearray], int], data: ByteSource, bound: int) -> memoryview:
    size = min(max(_FIRST_GUESS_BYTES, 4 * len(data)), bound)
    while True:
        output = bytearray(size)
        try:
            return memoryview(output)[: decompress_into(data, output)]
        except cramjam.DecompressionError as refusal:
            # Free it before the larger buffer is allocated, and before the traceback of an exception keeps it alive.
            del output
            if str(refusal) != _OUTPUT_FULL:
                raise
        if size == bound:
            raise DecompressedTooLarge(f"{len(data)} bytes decompress to more than {bound}")
        size = min(4 * size, bound)


def _unsnappy(data: memoryview, bound: int) -> memoryview:
    if data[:8] != _XERIAL_MAGIC:
        return _unsnappy_block(data, bound)
    output = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data):
        stop = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if stop > len(data):
            raise MalformedRecords("a snappy block is incomplete")
        output += _unsnappy_block(data[position + 4 : stop], bound - len(output))
        position = stop
    return memoryview(output)


def _unsnappy_block(block: memoryview, bound: int) -> memoryview:
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > _SNAPPY_EXPANSION_MAX * len(block):
        raise MalformedRecords(f"{len(block)} bytes of snappy cannot decompress to {claimed}")
    if claimed > bound:
        raise DecompressedTooLarge(f"{len(block)} bytes decompress to {claimed}, which is more than {bound}")
    output = bytearray(claimed)
    return memoryview(output)[: cramjam.snappy.decompress_raw_into(block, output)]


def compress(codec: Codec, data: ByteSource, level: int | None = None) -> bytes:
    """`level` as in Kafka's `compression.*.level`: -1 for gzip and 9 for lz4 mean the default of the codec."""
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, None if level == GZIP_DEFAULT_LEVEL else level))
    if codec == Codec.SNAPPY:
        return b"".join([_XERIAL_HEADER, *_snappy_blocks(data)])
    if codec == Codec.LZ4:
        return b"".join([_LZ4_HEADER, *_lz4_blocks(data, level), bytes(4)])
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    return bytes(data)


def _snappy_blocks(data: ByteSource) -> Iterator[bytes]:
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        yield len(block).to_bytes(4, "big")
        yield block


def _lz4_blocks(data: ByteSource, level: int | None) -> Iterator[bytes]:
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        raw = bytes(data[start : start + _LZ4_BLOCK_BYTES])
        packed = _lz4_block(raw, level)
        if len(packed) < len(raw):
            yield len(packed).to_bytes(4, "little")
            yield packed
        else:
            yield (len(raw) | _LZ4_STORED).to_bytes(4, "little")
            yield raw


def _lz4_block(raw: bytes, level: int | None) -> bytes:
    if level is None or level == LZ4_DEFAULT_LEVEL:
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    # This library supports levels only for whole frames. Their blocks depend on each other, so use one block each.
    effort = min(max(level, _LZ4_HIGH_MIN), _LZ4_HIGH_MAX)
    frame = bytes(cramjam.lz4.compress(raw, effort))
    size = int.from_bytes(frame[len(_LZ4_HEADER) : len(_LZ4_HEADER) + 4], "little")
    start = len(_LZ4_HEADER) + 4
    return raw if size & _LZ4_STORED else frame[start : start + size]
