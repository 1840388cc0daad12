"""Batches of the metadata log and its checkpoints: metadata records, or control records, never both in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.base.ids import LeaderEpoch, Offset
from odradek.metadata.features import record_version
from odradek.protocol.batch import CONTROL, encode_batch, iter_batches, iter_records
from odradek.protocol.control_records import (
    ControlType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from odradek.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from odradek.protocol.records import Record
from odradek.protocol.schema import Message

_CONTROL_TYPES: dict[type[Message], ControlType] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_KNOWN_CONTROL_TYPES = frozenset(_CONTROL_TYPES.values())


class MetadataBatch(NamedTuple):
    last_offset: Offset
    leader_epoch: LeaderEpoch
    control: list[Message]
    records: list[Message]


def metadata_batch(records: Sequence[Message], wall_ms: int, base_offset: int = 0) -> bytearray:
    return encode_batch(
        [Record(value=encode_metadata_record(record, record_version(record)), timestamp=wall_ms) for record in records],
        base_offset=base_offset,
        leader_epoch=0,
    )


def control_batch(records: Sequence[Message], wall_ms: int, base_offset: int = 0) -> bytearray:
    return encode_batch(
        [
            Record(
                key=encode_control_key(_CONTROL_TYPES[type(record)]),
                value=encode_control_value(record),
                timestamp=wall_ms,
            )
            for record in records
        ],
        base_offset=base_offset,
        leader_epoch=0,
        attributes=CONTROL,
    )


def read_batches(data: bytes) -> Iterator[MetadataBatch]:
    for header, batch in iter_batches(data):
        control: list[Message] = []
        records: list[Message] = []
        for record in iter_records(batch):
            if header.is_control:
                kind = decode_control_key(record.key or b"")
                if kind in _KNOWN_CONTROL_TYPES:
                    control.append(decode_control_value(ControlType(kind), record.value or b""))
            else:
                records.append(decode_metadata_record(record.value or b""))
        yield MetadataBatch(Offset(header.last_offset), LeaderEpoch(header.leader_epoch), control, records)
