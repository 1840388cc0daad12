"""Why a client's batch is refused. The append only detects that it is invalid; this finds the code and message."""

from __future__ import annotations

from struct import error

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ByteSource
from odradek.log.appended import RecordsRefused
from odradek.log.config import LogConfig
from odradek.protocol.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    has_valid_checksum,
    read_header,
    unpacked,
)
from odradek.protocol.compression import Codec
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_check import Checked, check_records


def require_fits(name: str, size: int, config: LogConfig) -> None:
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{name}: a batch of {size} bytes does not fit in segments of {config.segment_bytes}",
        )


def refusal(batch: memoryview, config: LogConfig) -> KafkaError:
    """The first rule that the header breaks."""
    try:
        header = HEADER.unpack_from(batch)
    except error:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(batch)} bytes are too few for a record batch")
    base, length, _, magic, _, attributes, delta, _, _, producer_id, epoch, sequence, count = header
    size = len(batch)
    codec = attributes & CODEC_MASK
    rules = (
        (magic != MAGIC, ErrorCode.INVALID_RECORD, f"a record batch must have magic {MAGIC}, not {magic}"),
        (
            length < HEADER_BYTES - LOG_OVERHEAD or length + LOG_OVERHEAD > size,
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch header says {length + LOG_OVERHEAD} bytes, the request has {size}",
        ),
        (
            length + LOG_OVERHEAD != size,
            ErrorCode.INVALID_RECORD,
            "a request must have exactly one record batch per partition",
        ),
        (
            size > config.max_message_bytes,
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}",
        ),
        (base != 0, ErrorCode.INVALID_RECORD, f"a producer must send base offset 0, not {base}"),
        (count <= 0, ErrorCode.INVALID_RECORD, f"a batch must have records, not {count}"),
        (count != delta + 1, ErrorCode.INVALID_RECORD, f"{count} records, but the last has offset delta {delta}"),
        (attributes & CONTROL, ErrorCode.INVALID_RECORD, "clients may not write control records"),
        (
            attributes & TRANSACTIONAL and producer_id < 0,
            ErrorCode.INVALID_RECORD,
            "a transactional batch needs a producer id",
        ),
        (
            attributes & LOG_APPEND_TIME,
            ErrorCode.INVALID_TIMESTAMP,
            "only the broker may set LogAppendTime, a producer must send CreateTime",
        ),
        (
            attributes & DELETE_HORIZON,
            ErrorCode.INVALID_RECORD,
            "only compaction may set the delete horizon, a producer must send the base timestamp of its records",
        ),
        (codec > max(Codec), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}"),
        (sequence < 0, ErrorCode.INVALID_RECORD, f"a batch with a producer id needs a sequence, not {sequence}"),
        (epoch < 0, ErrorCode.INVALID_RECORD, f"a batch with a producer id needs a producer epoch, not {epoch}"),
    )
    return next(KafkaError(code, message) for broken, code, message in rules if broken)


def without_transactional_id() -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a transactional batch came in a request without a transactional id",
    )


def check_timestamps(first: int, latest: int, config: LogConfig, wall_ms: int) -> None:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    for timestamp in (first, latest):
        if timestamp != NO_TIMESTAMP and not -after <= wall_ms - timestamp <= before:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is more than {before} ms before or {after} ms after broker time {wall_ms}",
            )


def require_keys(batch: ByteSource) -> None:
    """Slow. Call before an append to a compacted topic: every record there needs a key."""
    try:
        header = read_header(batch)
    except MalformedRecords:
        return  # the append refuses it with the reason, as below
    if header.size_bytes != len(batch) or not has_valid_checksum(batch):
        return
    _, checked = looked_into(header, batch)
    refuse_keyless(checked)


def looked_into(header: BatchHeader, batch: ByteSource) -> tuple[bytes, Checked]:
    """Slow. The decompressed records of a client's batch, and the result of their check. Raises KafkaError."""
    require_few(header.records_count)
    try:
        data = unpacked(header, memoryview(batch))
        return data, check_records(data, header.records_count)
    except MalformedRecords as broken:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the records cannot be read: {broken}") from broken


def refuse_keyless(checked: Checked) -> None:
    if checked.keyless:
        why = "a compacted topic takes no record without a key"
        raise RecordsRefused(ErrorCode.INVALID_RECORD, why, tuple((index, why) for index in checked.keyless))


def require_few(records_count: int) -> None:
    most = limits.checked_batch_records_max
    if records_count > most:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a compacted or recompressed topic takes at most {most} records per batch, not {records_count}",
        )


def is_slow_to_look_into(batch: ByteSource) -> bool:
    """True for a compressed or large batch: run `require_keys` outside the event loop."""
    packed = len(batch) > ATTRIBUTES_POSITION + 1 and batch[ATTRIBUTES_POSITION + 1] & CODEC_MASK
    return bool(packed) or len(batch) > limits.checked_batch_inline_bytes_max
