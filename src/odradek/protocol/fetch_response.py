"""A hand-written encoder of Fetch responses, versions 4-18: bytes and Regions, so that no records are copied here."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ports import Region
from odradek.protocol.fetch import FIRST_FLEXIBLE, TopicKey
from odradek.protocol.headers import response_start
from odradek.protocol.leader_hints import (
    CurrentLeader,
    NodeEndpoint,
    compact_string,
    current_leader_content,
    node_endpoints_content,
)
from odradek.protocol.wire import tagged_section, uvarint


class DivergingEpoch(NamedTuple):
    """The largest epoch up to which the follower's log agrees with the leader's, and its end offset."""

    leader_epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """The snapshot to fetch instead, because the log no longer has these records."""

    end_offset: int
    leader_epoch: int


class FetchedPartition:
    """The part of a reply for one partition. On an error the offsets are -1; without records, `records` is None."""

    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        partition: int,
        error_code: int = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Region | bytes | None = None,
        *,
        aborted_transactions: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        diverging_epoch: DivergingEpoch | None = None,
        current_leader: CurrentLeader | None = None,
        snapshot_id: SnapshotId | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted_transactions = aborted_transactions  # (producer id, first offset); None: not requested
        self.preferred_read_replica = preferred_read_replica
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id


FetchedTopics = Sequence[tuple[TopicKey, Sequence[FetchedPartition]]]

_start_v4 = Struct(">ii").pack  # throttle time, topics
_start_v7 = Struct(">ihii").pack  # throttle time, error, session, topics
_start_flexible = Struct(">ihi").pack
_int = Struct(">i").pack
_short = Struct(">h").pack


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: FetchedTopics,
    *,
    throttle_time_ms: int = 0,
    error_code: int = ErrorCode.NONE,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | bytearray | Region]:
    """The whole frame. It contains the Regions of `topics`. The sender of the frame releases them."""
    reply = _Scatter()
    if version >= FIRST_FLEXIBLE:
        reply.small += (_start_flexible(throttle_time_ms, error_code, session_id), uvarint(len(topics) + 1))
        for topic, partitions in topics:
            reply.small += (
                topic if isinstance(topic, bytes) else compact_string(topic),
                uvarint(len(partitions) + 1),
            )
            _flexible_partitions(reply, partitions)
            reply.small.append(b"\0")
        hints = node_endpoints if version >= 16 else ()
        reply.small.append(tagged_section([(0, node_endpoints_content(hints))]) if hints else b"\0")
        return reply.frame(correlation_id, tagged=True)
    if version >= 7:
        reply.small.append(_start_v7(throttle_time_ms, error_code, session_id, len(topics)))
    else:
        reply.small.append(_start_v4(throttle_time_ms, len(topics)))
    for topic, partitions in topics:
        name = topic if isinstance(topic, bytes) else topic.encode()
        reply.small += (_short(len(name)), name, _int(len(partitions)))
        for partition in partitions:
            _plain_partition(reply, partition, version)
    return reply.frame(correlation_id, tagged=False)


class _Scatter:
    """Pieces of a frame: small ones are joined, Regions stay as they are."""

    __slots__ = ("_bytes", "_parts", "small")

    def __init__(self) -> None:
        self.small: list[bytes] = []  # the pieces after the last Region
        self._parts: list[bytes | bytearray | Region] = []
        self._bytes = 0

    def add_region(self, region: Region) -> None:
        joined = b"".join(self.small)
        self.small = []
        self._parts += (joined, region)
        self._bytes += len(joined) + region.length

    def frame(self, correlation_id: int, *, tagged: bool) -> list[bytes | bytearray | Region]:
        joined = b"".join(self.small)
        start = response_start(correlation_id, tagged=tagged, body_bytes=self._bytes + len(joined))
        if not self._parts:
            return [start + joined]
        self._parts[0] = start + self._parts[0]  # type: ignore[operator]  # the first part is never a Region
        self._parts.append(joined)
        return self._parts


_flexible_head = Struct(">ihqqqBi").pack  # aborted transactions: null
_flexible_head_alone = Struct(">ihqqq").pack
_aborted_flexible = Struct(">qqx").pack
_aborted_plain = Struct(">qq").pack
_epoch_and_offset = Struct(">iqx").pack
_offset_and_epoch = Struct(">qix").pack


def _flexible_partitions(reply: _Scatter, partitions: Sequence[FetchedPartition]) -> None:
    small = reply.small
    for of in partitions:
        records = of.records
        if of.aborted_transactions is None:
            small.append(
                _flexible_head(
                    of.partition,
                    of.error_code,
                    of.high_watermark,
                    of.last_stable_offset,
                    of.log_start_offset,
                    0,
                    of.preferred_read_replica,
                )
            )
        else:
            small.append(_head_with_aborted(of, of.aborted_transactions))
        if isinstance(records, Region):
            small.append(uvarint(records.length + 1))
            reply.add_region(records)
            small = reply.small
        elif records:
            small += (uvarint(len(records) + 1), records)
        else:
            small.append(b"\1")
        untagged = of.diverging_epoch is None and of.current_leader is None and of.snapshot_id is None
        small.append(b"\0" if untagged else _partition_tags(of))


def _head_with_aborted(of: FetchedPartition, aborted: Sequence[tuple[int, int]]) -> bytes:
    fixed = _flexible_head_alone(
        of.partition, of.error_code, of.high_watermark, of.last_stable_offset, of.log_start_offset
    )
    rows = [_aborted_flexible(producer_id, first) for producer_id, first in aborted]
    return b"".join([fixed, uvarint(len(aborted) + 1), *rows, _int(of.preferred_read_replica)])


def _partition_tags(of: FetchedPartition) -> bytes:
    fields = []
    if of.diverging_epoch is not None:
        fields.append((0, _epoch_and_offset(*of.diverging_epoch)))
    if of.current_leader is not None:
        fields.append((1, current_leader_content(of.current_leader)))
    if of.snapshot_id is not None:
        fields.append((2, _offset_and_epoch(*of.snapshot_id)))
    return tagged_section(fields)


def _plain_partition(reply: _Scatter, of: FetchedPartition, version: int) -> None:
    small = reply.small
    small.append(_plain_head(of, version))
    aborted = of.aborted_transactions
    if aborted is None:
        small.append(b"\xff\xff\xff\xff")
    else:
        small.append(_int(len(aborted)))
        small += [_aborted_plain(producer_id, first) for producer_id, first in aborted]
    if version >= 11:
        small.append(_int(of.preferred_read_replica))
    records = of.records
    if isinstance(records, Region):
        small.append(_int(records.length))
        reply.add_region(records)
    else:
        small += (_int(len(records or b"")), records or b"")


_plain_v4 = Struct(">ihqq").pack
_plain_v5 = Struct(">ihqqq").pack


def _plain_head(of: FetchedPartition, version: int) -> bytes:
    if version >= 5:
        return _plain_v5(of.partition, of.error_code, of.high_watermark, of.last_stable_offset, of.log_start_offset)
    return _plain_v4(of.partition, of.error_code, of.high_watermark, of.last_stable_offset)
