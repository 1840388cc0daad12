"""A hand-written codec of Fetch 17 for the sender: a follower, an observer or a voter.

The side of the leader is in `fetch` and `fetch_response`. Records are not copied: they are slices of the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from odradek.base import limits
from odradek.base.ids import ZERO_UUID
from odradek.protocol.fetch import FetchPartition
from odradek.protocol.fetch_response import DivergingEpoch, SnapshotId
from odradek.protocol.leader_hints import CurrentLeader, NodeEndpoint, compact_string
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.wire import (
    finish_uvarint,
    overrun,
    read_compact_string,
    read_count,
    skip_tagged,
    tagged_count,
    tagged_field,
    tagged_section,
    uvarint,
)

FETCH = 1
VERSION = 17

_start = Struct(">iiibii").pack  # max wait, min bytes, max bytes, isolation level, session id and epoch
_wanted = Struct(">iiqiqix").pack  # the last byte is an empty tagged section
_wanted_before_tags = Struct(">iiqiqi").pack
_replica_state = Struct(">iqx").pack
READ_UNCOMMITTED = 0


def encode_fetch_request(
    *,
    replica_id: int,
    replica_epoch: int,
    topics: Sequence[tuple[bytes, Sequence[FetchPartition]]],
    forgotten: Sequence[tuple[bytes, Sequence[int]]] = (),
    session_id: int = 0,
    session_epoch: int = -1,
    max_wait_ms: int,
    min_bytes: int = 1,
    max_bytes: int,
    cluster_id: str | None = None,
    directory_id: bytes = ZERO_UUID,
) -> bytes:
    """The request body. `topics` has topic ids; `directory_id` is the directory of the replica's metadata log."""
    parts = [_start(max_wait_ms, min_bytes, max_bytes, READ_UNCOMMITTED, session_id, session_epoch)]
    parts.append(uvarint(len(topics) + 1))
    directory = b"" if directory_id == ZERO_UUID else tagged_section([(0, directory_id)])
    for topic_id, partitions in topics:
        parts += (topic_id, uvarint(len(partitions) + 1))
        if directory:
            for partition in partitions:
                parts += (_wanted_before_tags(*partition), directory)
        else:
            parts += [_wanted(*partition) for partition in partitions]
        parts.append(b"\0")
    parts.append(uvarint(len(forgotten) + 1))
    for topic_id, indexes in forgotten:
        parts += (topic_id, uvarint(len(indexes) + 1), Struct(f">{len(indexes)}ix").pack(*indexes))
    parts.append(b"\1")  # no rack: replicas read from the leader
    tags = [] if cluster_id is None else [(0, compact_string(cluster_id))]
    tags.append((1, _replica_state(replica_id, replica_epoch)))
    parts.append(tagged_section(tags))
    return b"".join(parts)


class PartitionReply(NamedTuple):
    """The part of the reply for one partition. On an error the offsets may be -1."""

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    # Whole batches of the leader. Empty when there is nothing new, or the follower must truncate first.
    records: memoryview
    diverging_epoch: DivergingEpoch | None = None
    current_leader: CurrentLeader | None = None
    snapshot_id: SnapshotId | None = None


class FetchReply(NamedTuple):
    throttle_time_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[bytes, list[PartitionReply]]]
    node_endpoints: list[NodeEndpoint]


_head = Struct(">ihi")
# From the index to the preferred replica, with a null or empty array of aborted transactions between them.
_partition = Struct(">ihqqqBi")
_PREFERRED_REPLICA_BYTES = 4
_PARTITION_BYTES_MIN = _partition.size + 2
_TOPIC_BYTES_MIN = 18
_ABORTED_BYTES_MIN = 17
_ENDPOINT_BYTES_MIN = 11
_epoch_and_offset = Struct(">iq").unpack_from
_offset_and_epoch = Struct(">qi").unpack_from
_id_and_epoch = Struct(">ii").unpack_from
_int = Struct(">i").unpack_from


def decode_fetch_response(body: memoryview) -> FetchReply:
    """Raises only MalformedMessage."""
    try:
        return _decode(body)
    except (struct_error, IndexError) as broken:
        raise MalformedMessage("a reply to Fetch is incomplete") from broken
    except UnicodeDecodeError as broken:
        raise MalformedMessage("a reply to Fetch has a string that is not UTF-8") from broken


def _decode(data: memoryview) -> FetchReply:
    throttle_time_ms, error_code, session_id = _head.unpack_from(data)
    left = limits.array_elements_max
    topic_count, p = read_count(data, _head.size, left, _TOPIC_BYTES_MIN)
    topics: list[tuple[bytes, list[PartitionReply]]] = []
    for _ in range(topic_count):
        topic_id = bytes(data[p : p + 16])
        count, p = read_count(data, p + 16, left, _PARTITION_BYTES_MIN)
        left -= count + 1
        partitions = []
        for _ in range(count):
            partition, p = _read_partition(data, p)
            partitions.append(partition)
        topics.append((topic_id, partitions))
        p = skip_tagged(data, p + 1, data[p])
    endpoints, p = _read_endpoints(data, p, left)
    if p != len(data):
        raise MalformedMessage(f"{len(data) - p} bytes follow a reply to Fetch")
    return FetchReply(throttle_time_ms, error_code, session_id, topics, endpoints)


def _read_partition(data: memoryview, p: int) -> tuple[PartitionReply, int]:
    index, error_code, high_watermark, _, log_start_offset, aborted, _ = _partition.unpack_from(data, p)
    p += _partition.size
    if aborted > 1:
        p = _after_aborted(data, p - _PREFERRED_REPLICA_BYTES - 1)
    length = data[p]
    p += 1
    if length > 127:
        length, p = finish_uvarint(data, p, length)
    end = p + max(length - 1, 0)
    records = data[p:end]
    if not data[end]:  # IndexError if the length was wrong
        return PartitionReply(index, error_code, high_watermark, log_start_offset, records), end + 1
    diverging, leader, snapshot, p = _read_partition_tags(data, end)
    reply = PartitionReply(index, error_code, high_watermark, log_start_offset, records, diverging, leader, snapshot)
    return reply, p


def _after_aborted(data: memoryview, p: int) -> int:
    """The position after the aborted transactions, which only consumers need, and the preferred replica."""
    count, p = read_count(data, p, limits.array_elements_max, _ABORTED_BYTES_MIN)
    for _ in range(count):
        p += 16
        p = skip_tagged(data, p + 1, data[p])
    return p + _PREFERRED_REPLICA_BYTES


def _read_partition_tags(
    data: memoryview, p: int
) -> tuple[DivergingEpoch | None, CurrentLeader | None, SnapshotId | None, int]:
    diverging = leader = snapshot = None
    count, p = tagged_count(data, p + 1, data[p])
    for _ in range(count):
        tag, p, end = tagged_field(data, p)
        if tag == 0:
            diverging = DivergingEpoch(*_epoch_and_offset(data, p))
            p += 12
        elif tag == 1:
            leader = CurrentLeader(*_id_and_epoch(data, p))
            p += 8
        elif tag == 2:
            snapshot = SnapshotId(*_offset_and_epoch(data, p))
            p += 12
        p = end if tag > 2 else skip_tagged(data, p + 1, data[p])
        if p != end:
            overrun()
    return diverging, leader, snapshot, p


def _read_endpoints(data: memoryview, p: int, left: int) -> tuple[list[NodeEndpoint], int]:
    endpoints: list[NodeEndpoint] = []
    tags, p = tagged_count(data, p + 1, data[p])
    for _ in range(tags):
        tag, p, end = tagged_field(data, p)
        if tag == 0:
            count, p = read_count(data, p, left, _ENDPOINT_BYTES_MIN)
            for _ in range(count):
                (node_id,) = _int(data, p)
                host, p = read_compact_string(data, p + 4)
                (port,) = _int(data, p)
                rack, p = read_compact_string(data, p + 4) if data[p + 4] else (None, p + 5)
                p = skip_tagged(data, p + 1, data[p])
                endpoints.append(NodeEndpoint(node_id, host, port, rack))
        else:
            p = end
        if p != end:
            overrun()
    return endpoints, p
