"""Decodes records of `__consumer_offsets` for the monitor: commits, deleted offsets and groups, assignments.

A busy cluster writes 20,000 commits a second. The commits of one request are consecutive records whose keys differ only
in the partition, and usually all values have the same form, without metadata. They are decoded together, with a few
calls into C. All other records go through the tables of `protocol`, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from struct import Struct

from odradek.monitor.lag.windows import Position, Positions
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
LEGACY_OFFSET, OFFSET, GROUP, CONSUMER_GROUP = b"\0\0", b"\0\1", b"\0\2", b"\0\3"
PARTITION_BYTES = 4
VERSION_BYTES = 2
KEY_BYTES_MIN = VERSION_BYTES + PARTITION_BYTES
NAMES_KEPT = 4_096
# Records that are unpacked together, which bounds the memory of the structs for them: at most 40 KB each.
RECORDS_AT_ONCE = 256
STRUCTS_KEPT = 128

# Values without metadata, by version and size: version, offset, leader epoch, length of the metadata, time. The number
# is the length that means no metadata. Version 4 may have a topic id.
_USUAL = {(3, 24): ("hqihq", 0), (4, 24): ("hqiBqx", 1), (4, 42): ("hqiBq19x", 1)}
_FIELDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    group: str
    topic: str
    positions: Positions


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


def group_events(keys: list[bytes | None], values: list[bytes | None]) -> Iterator[GroupEvent]:
    """The events of consecutive records of one partition. Records that cannot be decoded are skipped, as in Burrow."""
    for first in range(0, len(keys), RECORDS_AT_ONCE):
        last = first + RECORDS_AT_ONCE
        yield from _few_events([key or b"" for key in keys[first:last]], values[first:last])


def _few_events(present: Sequence[bytes], values: Sequence[bytes | None]) -> Iterator[GroupEvent]:
    first = 0
    for size, same in groupby(map(len, present)):
        count = len(list(same))
        end = first + count
        if size >= KEY_BYTES_MIN:
            yield from _same_size(size, present[first:end], values[first:end])
        elif size > VERSION_BYTES:  # too short for a commit, but not for a group with a short name
            for at in range(first, end):
                yield from _group_event(present[at], values[at])
        first = end


def _same_size(size: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> Iterator[GroupEvent]:
    """Records whose keys have the same size: split where the prefix changes, which is type, group and topic."""
    fields = _struct(f"{size - PARTITION_BYTES}si", len(keys)).unpack(b"".join(keys))
    prefixes, partitions = fields[::2], fields[1::2]
    first = 0
    for prefix, same in groupby(prefixes):
        end = first + len(list(same))
        if prefix[:VERSION_BYTES] in (LEGACY_OFFSET, OFFSET):
            yield from _offsets(prefix, partitions[first:end], values[first:end])
        else:
            for at in range(first, end):
                yield from _group_event(keys[at], values[at])
        first = end


@lru_cache(maxsize=STRUCTS_KEPT)
def _struct(form: str, count: int) -> Struct:
    """Of so many in a row: one call for all of them takes half the time of one call for each."""
    return Struct(f">{form * count}")


def _offsets(prefix: bytes, partitions: Sequence[int], values: Sequence[bytes | None]) -> Iterator[GroupEvent]:
    names = _names(prefix)
    if names is None:
        return
    group, topic = names
    if all(values):
        positions = _positions(partitions, values)
        if positions is not None:
            yield Commits(group=group, topic=topic, positions=positions)
        return
    for partition, value in zip(partitions, values, strict=True):
        if not value:
            yield OffsetDeleted(group=group, topic=topic, partition=partition)
        elif (position := _position(partition, value)) is not None:
            yield Commits(group=group, topic=topic, positions=Positions.of(position))


@lru_cache(maxsize=NAMES_KEPT)
def _names(prefix: bytes) -> tuple[str, str] | None:
    try:
        decoded = OffsetCommitKey.decode(prefix + bytes(PARTITION_BYTES), 0, VERSION_BYTES)
    except MalformedMessage:
        return None
    return decoded.group, decoded.topic


def _positions(partitions: Sequence[int], values: Iterable[bytes | None]) -> Positions | None:
    """None if no value can be decoded."""
    present = [value for value in values if value]
    version, size = int.from_bytes(present[0][:VERSION_BYTES], "big"), len(present[0])
    if (version, size) in _USUAL and {*map(len, present)} == {size}:
        form, empty = _USUAL[version, size]
        fields = _struct(form, len(present)).unpack(b"".join(present))
        versions, offsets, _, metadata, times_ms = (fields[at::_FIELDS] for at in range(_FIELDS))
        if versions.count(version) == metadata.count(empty) == len(present):
            return Positions(partitions, offsets, times_ms)
    found = [_position(partition, value) for partition, value in zip(partitions, present, strict=True)]
    decoded = [position for position in found if position is not None]
    return Positions.of(*decoded) if decoded else None


def _position(partition: int, value: bytes) -> Position | None:
    try:
        decoded = decode_group_value(OffsetCommitKey(), value)
    except MalformedMessage:
        return None
    return (partition, decoded.offset, decoded.commit_timestamp) if isinstance(decoded, OffsetCommitValue) else None


def _group_event(key: bytes, value: bytes | None) -> Iterator[GroupEvent]:
    kind = key[:VERSION_BYTES]
    if kind not in (GROUP, CONSUMER_GROUP):
        return
    try:
        group = GroupMetadataKey.decode(key, 0, VERSION_BYTES).group
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
