"""Records of `__consumer_offsets`: a key is its type (int16) and body, a value its version (int16) and body."""

from __future__ import annotations

from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.schema import ByteSource, Message

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "UnknownRecordType",
    "decode_group_key",
    "decode_group_value",
    "encode_group_key",
    "encode_group_value",
]

_KEYS: dict[int, type[Message]] = {key.KEY: key for key in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)}
_VALUES: dict[int, type[Message]] = {
    value.KEY: value for value in (LegacyOffsetCommitValue, OffsetCommitValue, GroupMetadataValue)
}


class UnknownRecordType(MalformedMessage):
    """A record of a later Kafka version. A reader may skip it."""


def encode_group_key(key: Message) -> bytes:
    return key.KEY.to_bytes(2, "big") + key.encode(0)


def encode_group_value(value: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + value.encode(version)


def decode_group_key(data: ByteSource) -> Message:
    key = _KEYS.get(_prefix(data))
    if key is None:
        raise UnknownRecordType(f"group record type {_prefix(data)} is unknown")
    return key.decode(data, 0, 2)


def decode_group_value(key: Message, data: ByteSource) -> Message:
    return _VALUES[key.KEY].decode(data, _prefix(data), 2)


def _prefix(data: ByteSource) -> int:
    if len(data) < 2:
        raise MalformedMessage("a group record is shorter than its version field")
    return int.from_bytes(data[:2], "big", signed=True)
