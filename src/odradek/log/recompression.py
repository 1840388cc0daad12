"""Recompressing a client's batch with the codec of the topic's `compression.type`.

Besides the codec, only length, checksum and the largest timestamp change; the latter is computed from the records, as
in Kafka. The records stay as the producer wrote them, byte for byte.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ByteSource
from odradek.log.config import LogConfig
from odradek.log.validation import looked_into, refuse_keyless
from odradek.protocol.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    BatchHeader,
    has_valid_checksum,
    packed_batch,
    read_header,
)
from odradek.protocol.compression import Codec, compress
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import LONG_MAX, LONG_MIN


def has_other_codec(batch: ByteSource, codec: Codec | None) -> bool:
    """Runs on the event loop, on unvalidated bytes of a client."""
    return (
        codec is not None
        and len(batch) > ATTRIBUTES_POSITION + 1
        and batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK != codec
    )


def ready_to_append(batch: bytearray, config: LogConfig) -> bytearray:
    """Slow. A client's batch as its topic stores it. Raises KafkaError when a record cannot be read or lacks a key.

    A batch with an invalid header is returned unchanged: the append then refuses it with the reason.
    """
    header = _readable_header(batch)
    if header is None or not (config.compacts or has_other_codec(batch, config.codec)):
        return batch
    data, checked = looked_into(header, batch)
    if config.compacts:
        refuse_keyless(checked)
    if config.codec is None or header.codec == config.codec:
        return batch
    recompressed = _recompressed(header, data, checked.latest_delta, config.codec, config)
    if len(recompressed) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} bytes, but {len(recompressed)} after recompression with "
            f"compression.type={config.compression_type}, max.message.bytes is {config.max_message_bytes}",
        )
    return recompressed


def recompressed_own(batch: bytearray, config: LogConfig) -> bytearray:
    """Recompress a batch of the broker itself. Client checks do not apply, and control batches keep their codec."""
    header = read_header(batch)
    if config.codec is None or header.codec == config.codec or header.is_control:
        return batch
    data, checked = looked_into(header, batch)
    return _recompressed(header, data, checked.latest_delta, config.codec, config)


def _recompressed(header: BatchHeader, data: bytes, latest: int, codec: Codec, config: LogConfig) -> bytearray:
    max_timestamp = header.base_timestamp + latest
    if not LONG_MIN <= max_timestamp <= LONG_MAX:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"record timestamp {max_timestamp} exceeds 64 bits")
    body = data if codec == Codec.NONE else compress(codec, data, config.codec_level)
    attributes = header.attributes & ~CODEC_MASK | codec
    return packed_batch(header._replace(attributes=attributes, max_timestamp=max_timestamp), body)


def _readable_header(batch: bytearray) -> BatchHeader | None:
    """The header, or None if the batch is invalid, has no records or is a control batch (only brokers write those)."""
    try:
        header = read_header(batch)
    except MalformedRecords:
        return None
    readable = (
        header.size_bytes == len(batch)
        and header.codec <= max(Codec)
        and not header.is_control
        and header.records_count > 0
        and header.records_count == header.last_offset_delta + 1
        and has_valid_checksum(batch)
    )
    return header if readable else None
