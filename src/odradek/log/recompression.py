"""A client's batch in the codec that its topic asks for with `compression.type`.

Only the codec and what depends on it change: length, checksum, and the largest timestamp, which is computed from the
records as in Kafka. The records stay as the producer wrote them, byte for byte.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ByteSource
from odradek.log.config import LogConfig
from odradek.log.validation import require_few
from odradek.protocol.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    BatchHeader,
    has_valid_checksum,
    packed_batch,
    read_header,
    unpacked,
)
from odradek.protocol.compression import Codec, compress
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_check import check_records


def has_other_codec(batch: ByteSource, codec: Codec | None) -> bool:
    """Asked on the event loop, of whatever a client sent."""
    return (
        codec is not None
        and len(batch) > ATTRIBUTES_POSITION + 1
        and batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK != codec
    )


def recompressed(batch: bytearray, config: LogConfig) -> bytearray:
    """Slow. A batch that the append refuses by its header comes back as it is: the append says why."""
    header = _readable_header(batch)
    codec = config.codec
    if header is None or codec is None or header.codec == codec:
        return batch
    require_few(header.records_count)
    try:
        data = unpacked(header, memoryview(batch))
        latest = check_records(data, header.records_count)
    except MalformedRecords as broken:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the records cannot be read: {broken}") from broken
    body = data if codec == Codec.NONE else compress(codec, data, config.codec_level)
    size = HEADER_BYTES + len(body)
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch came with {len(batch)} bytes and has {size} with compression.type={config.compression_type}, "
            f"max.message.bytes is {config.max_message_bytes}",
        )
    changes = {
        "attributes": header.attributes & ~CODEC_MASK | codec,
        "max_timestamp": header.base_timestamp + latest,
    }
    return packed_batch(header._replace(**changes), body)


def _readable_header(batch: bytearray) -> BatchHeader | None:
    """Of a batch with records and a codec that exists. Control batches, which only brokers write, keep their codec."""
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
