"""Decodes records of `__consumer_offsets` for the monitor: commits, deleted offsets and groups, assignments.

Commits are most of the records, so those of one request are decoded together, and the usual form of a value (version 3
without metadata) has a short path. Other forms go through the tables of `protocol`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

from odradek.monitor.lag.windows import Position
from odradek.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
)
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment

# Types of keys. 3 is the metadata of a group of the consumer protocol (KIP-848): its tombstone deletes the group.
LEGACY_OFFSET, OFFSET, GROUP, CONSUMER_GROUP = 0, 1, 2, 3
PARTITION_BYTES = 4
VERSION_BYTES = 2

_USUAL = Struct(">hqihq")  # version, offset, leader epoch, length of the metadata, time
_USUAL_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    group: str
    topic: str
    positions: list[Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleted:
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The members of a group of the classic protocol after a rebalance: host, client id, partitions by topic."""

    group: str
    members: list[tuple[str, str, dict[str, list[int]]]]


GroupEvent = Commits | OffsetDeleted | GroupDeleted | Assigned
GroupRecord = tuple[bytes | None, bytes | None]  # key, value


def group_events(records: Iterable[GroupRecord]) -> Iterator[GroupEvent]:
    """The events of consecutive records of one partition. Records that cannot be decoded are skipped, as in Burrow."""
    prefix: bytes | None = None
    commits = Commits(group="", topic="", positions=[])
    for key, value in records:
        if key is None or len(key) < 2:
            continue
        if value and key[:-PARTITION_BYTES] == prefix:
            position = _position(key, value)
            if position is not None:
                commits.positions.append(position)
            continue
        if commits.positions:
            yield commits
            commits = Commits(group="", topic="", positions=[])
        prefix = None
        kind = key[1] if key[0] == 0 else -1
        if kind not in (LEGACY_OFFSET, OFFSET):
            yield from _group_event(kind, key, value)
            continue
        names = _names(key)
        if names is None:
            continue
        if not value:
            yield OffsetDeleted(group=names[0], topic=names[1], partition=names[2])
            continue
        prefix = key[:-PARTITION_BYTES]
        position = _position(key, value)
        commits = Commits(group=names[0], topic=names[1], positions=[] if position is None else [position])
    if commits.positions:
        yield commits


def _names(key: bytes) -> tuple[str, str, int] | None:
    try:
        decoded = OffsetCommitKey.decode(key, 0, 2)
    except MalformedMessage:
        return None
    return decoded.group, decoded.topic, decoded.partition


def _position(key: bytes, value: bytes) -> Position | None:
    partition = int.from_bytes(key[-PARTITION_BYTES:], "big")
    if len(value) == _USUAL.size:
        version, offset, _, metadata_bytes, timestamp_ms = _USUAL.unpack(value)
        if version == _USUAL_VERSION and metadata_bytes == 0:
            return partition, offset, timestamp_ms
    try:
        decoded = decode_group_value(OffsetCommitKey(), value)
    except MalformedMessage:
        return None
    if not isinstance(decoded, OffsetCommitValue):
        return None
    return partition, decoded.offset, decoded.commit_timestamp


def _group_event(kind: int, key: bytes, value: bytes | None) -> Iterator[GroupEvent]:
    if kind not in (GROUP, CONSUMER_GROUP):
        return
    try:
        group = GroupMetadataKey.decode(key, 0, 2).group
        if not value:
            yield GroupDeleted(group=group)
        elif kind == GROUP:
            metadata = decode_group_value(GroupMetadataKey(), value)
            if isinstance(metadata, GroupMetadataValue) and metadata.protocol_type == "consumer":
                yield Assigned(group=group, members=[_member(member) for member in metadata.members])
    except MalformedMessage:
        return


def _member(member: MemberMetadata) -> tuple[str, str, dict[str, list[int]]]:
    assigned: dict[str, list[int]] = {}
    if len(member.assignment) > VERSION_BYTES:
        # The version is ignored: later ones only add fields at the end.
        decoded, _ = ConsumerProtocolAssignment.decode_first(member.assignment, 0, VERSION_BYTES)
        assigned = {topic.topic: topic.partitions for topic in decoded.assigned_partitions}
    return member.client_host, member.client_id, assigned
