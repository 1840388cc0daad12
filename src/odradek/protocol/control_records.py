"""Control records: information about the log itself. The key holds the type, the value its message.

A value begins with its version as int16: the first field of the quorum's messages, a prefix of the transaction marker.
"""

from __future__ import annotations

from enum import IntEnum

from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.control_records import (
    Endpoint,
    EndTxnMarker,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from odradek.protocol.schema import ByteSource, Message

__all__ = [
    "ControlType",
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersionFeature",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "LeaderChangeMessageVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
    "VotersRecordVoter",
    "decode_control_key",
    "decode_control_value",
    "encode_control_key",
    "encode_control_value",
]


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_VALUES: dict[int, type[Message]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


def encode_control_key(control_type: ControlType) -> bytes:
    return b"\0\0" + control_type.to_bytes(2, "big")


def decode_control_key(key: ByteSource) -> int:
    """The type as a plain number. A number that is not in `ControlType` is valid and must be ignored."""
    if len(key) < 4:
        raise MalformedMessage(f"the key of a control record needs 4 bytes, this one has {len(key)}")
    return int.from_bytes(key[2:4], "big", signed=True)


def encode_control_value(value: Message, version: int = 0) -> bytes:
    if isinstance(value, EndTxnMarker):
        return version.to_bytes(2, "big") + value.encode(version)
    return value.encode(version)


def decode_control_value(control_type: ControlType, data: ByteSource) -> Message:
    version = int.from_bytes(data[:2], "big", signed=True)
    schema = _VALUES[control_type]
    return schema.decode(data, version, 2 if schema is EndTxnMarker else 0)
