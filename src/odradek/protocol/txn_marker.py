"""The end of one producer's transaction in one partition: a control batch with one record."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from odradek.protocol.batch import CONTROL, TRANSACTIONAL, BatchHeader, encode_batch, unpacked
from odradek.protocol.control_records import ControlType, decode_control_key, encode_control_key
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import Record, decode_records

KEY_BYTES = 4
VALUE = Struct(">hi")  # version, coordinator epoch; later versions may add fields
VERSION = 0


class TxnMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    # The leader epoch of the transaction coordinator's partition: an older coordinator is fenced.
    coordinator_epoch: int
    committed: bool
    # From 2 on, the epoch of the marker is newer than the epoch of the transaction's records (KIP-890). Not stored.
    transaction_version: int = 0


def encode_marker(marker: TxnMarker, wall_ms: int) -> bytearray:
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    value = VALUE.pack(VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(encode_control_key(kind), value, timestamp=wall_ms)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


# Every marker has this size: its record has no varying part.
MARKER_BYTES = len(encode_marker(TxnMarker(0, 0, 0, committed=True), 0))


def read_marker(header: BatchHeader, batch: memoryview) -> TxnMarker | None:
    """The marker in a control batch. None if it is another control record, or if compaction emptied the batch.

    Raises MalformedRecords.
    """
    if header.producer_id < 0 or header.records_count == 0:
        return None
    append_time = header.max_timestamp if header.uses_append_time else None
    record = next(
        decode_records(
            unpacked(header, batch),
            header.records_count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            append_time,
        )
    )
    key, value = record.key or b"", record.value or b""
    if len(key) < KEY_BYTES or len(value) < VALUE.size:
        raise MalformedRecords(f"the control record at offset {record.offset} is incomplete")
    kind = decode_control_key(key)
    if kind not in (ControlType.COMMIT, ControlType.ABORT):
        return None
    _, coordinator_epoch = VALUE.unpack_from(value)
    return TxnMarker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == ControlType.COMMIT)
