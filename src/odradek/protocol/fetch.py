"""A hand-written decoder of Fetch requests, versions 4-18 (responses: `fetch_response`).

Topics are identified by name up to version 12 and by their 16-byte id from version 13 on, also in responses. Fields
that only fetches of the metadata quorum have (directory id, known high watermark) are skipped: the quorum decodes its
fetches with `messages.p01_fetch`.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from odradek.base import limits
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.wire import (
    finish_uvarint,
    not_nullable,
    overrun,
    read_compact_string,
    read_count,
    skip_tagged,
    tagged_count,
    tagged_field,
    too_many,
)

FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13

TopicKey = str | bytes


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    topic: TopicKey
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    topic: TopicKey
    partitions: list[int]


class FetchRequest:
    __slots__ = (
        "cluster_id",
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    replica_id: int  # -1: a consumer
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


def decode_fetch_request(buffer: memoryview, version: int, position: int, end: int) -> FetchRequest:
    """The request body in `buffer[position:end]`. Raises only MalformedMessage."""
    data = buffer[position:end]
    try:
        return _decode_flexible(data, version) if version >= FIRST_FLEXIBLE else _decode_plain(data, version)
    except (struct_error, IndexError) as broken:
        raise MalformedMessage(f"a Fetch v{version} request is incomplete") from broken
    except UnicodeDecodeError as broken:
        raise MalformedMessage(f"Fetch v{version} has a string that is not UTF-8") from broken


_int = Struct(">i").unpack_from
_start = Struct(">iiibiiB")  # from max wait to the number of topics
_wanted = Struct(">iiqiqix")  # the last byte is an empty tagged section
# Make NamedTuples from tuples directly: their Python constructors are slow.
_as_topic = partial(tuple.__new__, FetchTopic)
_as_partition = partial(tuple.__new__, FetchPartition)
_replica_state = Struct(">iq").unpack_from


def _decode_flexible(data: memoryview, version: int) -> FetchRequest:
    request = FetchRequest()
    request.replica_epoch = -1
    request.cluster_id = None
    if version >= 15:
        request.replica_id = -1
        p = 0
    else:
        (request.replica_id,) = _int(data)
        p = 4
    (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        count,
    ) = _start.unpack_from(data, p)
    p += _start.size
    if count > 127:
        count, p = finish_uvarint(data, p, count)
    if not count:
        not_nullable("topics")
    left = limits.array_elements_max
    request.topics = topics = []
    for _ in range(count - 1):
        topic, p = _flexible_topic(data, p, version)
        count, p = read_count(data, p, left, _wanted.size)
        left -= count + 1
        partitions, p = _flexible_partitions(data, p, count)
        topics.append(_as_topic((topic, partitions)))
    # The common case, a consumer without a session: no forgotten topics, no rack, no tags.
    if data[p] == 1 and data[p + 1] == 1 and data[p + 2] == 0:
        request.forgotten = []
        request.rack_id = ""
    else:
        _flexible_rest(data, p, left, version, request)
    return request


def _flexible_rest(data: memoryview, p: int, left: int, version: int, request: FetchRequest) -> None:
    count, p = read_count(data, p, left, 3)
    request.forgotten = []
    for _ in range(count):
        topic, p = _flexible_topic(data, p, version)
        count, p = read_count(data, p, left, 4)
        left -= count + 1
        request.forgotten.append(ForgottenTopic(topic, _indexes(data, p, count)))
        p += 4 * count
        p = skip_tagged(data, p + 1, data[p]) if data[p] else p + 1
    request.rack_id, p = read_compact_string(data, p)
    if data[p]:
        _flexible_tags(data, p, version, request)


def _flexible_topic(data: memoryview, p: int, version: int) -> tuple[TopicKey, int]:
    if version >= FIRST_WITH_TOPIC_IDS:
        return bytes(data[p : p + 16]), p + 16
    return read_compact_string(data, p)


def _flexible_partitions(data: memoryview, p: int, count: int) -> tuple[list[FetchPartition], int]:
    """The partitions of one topic and its tagged fields."""
    size = _wanted.size
    q = p + size * count
    # Consumers send no tagged fields, so all partitions have the same size and are unpacked together. A first
    # non-empty tagged section, if any, is at its regular position.
    if count > 4 and bytes(data[p + size - 1 : q : size]).count(0) == count:
        partitions = list(map(_as_partition, _wanted.iter_unpack(data[p:q])))
        p = q
    else:
        partitions = []
        for _ in range(count):
            partitions.append(_as_partition(_wanted.unpack_from(data, p)))
            p += size
            if data[p - 1]:
                p = skip_tagged(data, p, data[p - 1])
    return partitions, skip_tagged(data, p + 1, data[p]) if data[p] else p + 1


def _flexible_tags(data: memoryview, p: int, version: int, request: FetchRequest) -> None:
    count, p = tagged_count(data, p + 1, data[p])
    for _ in range(count):
        tag, p, stop = tagged_field(data, p)
        if tag == 0:
            request.cluster_id, p = read_compact_string(data, p) if data[p] else (None, p + 1)
        elif tag == 1 and version >= 15:
            request.replica_id, request.replica_epoch = _replica_state(data, p)
            p += 12
            p = skip_tagged(data, p + 1, data[p])
        else:
            p = stop
        if p != stop:
            overrun()


def _indexes(data: memoryview, p: int, count: int) -> list[int]:
    return list(Struct(f">{count}i").unpack_from(data, p))


_start_v4 = Struct(">iiiib")
_session = Struct(">ii")
_wanted_v4 = Struct(">iqi")
_wanted_v5 = Struct(">iqqi")
_wanted_v9 = Struct(">iiqqi")
_short = Struct(">h").unpack_from


def _decode_plain(data: memoryview, version: int) -> FetchRequest:
    left = limits.array_elements_max
    request = FetchRequest()
    request.replica_epoch = -1
    request.cluster_id = None
    start = _start_v4.unpack_from(data)
    request.replica_id, request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level = start
    p = _start_v4.size
    request.session_id, request.session_epoch = 0, -1
    if version >= 7:
        request.session_id, request.session_epoch = _session.unpack_from(data, p)
        p += _session.size
    wanted = _wanted_v9 if version >= 9 else _wanted_v5 if version >= 5 else _wanted_v4
    count, p = _plain_count(data, p, left, 6)
    request.topics = []
    for _ in range(count):
        topic, p = _plain_string(data, p)
        count, p = _plain_count(data, p, left, wanted.size)
        left -= count + 1
        q = p + wanted.size * count
        request.topics.append(FetchTopic(topic, _plain_partitions(wanted, data[p:q])))
        p = q
    request.forgotten = []
    if version >= 7:
        count, p = _plain_count(data, p, left, 6)
        for _ in range(count):
            topic, p = _plain_string(data, p)
            count, p = _plain_count(data, p, left, 4)
            left -= count + 1
            request.forgotten.append(ForgottenTopic(topic, _indexes(data, p, count)))
            p += 4 * count
    request.rack_id = ""
    if version >= 11:
        request.rack_id, p = _plain_string(data, p)
    return request


def _plain_partitions(wanted: Struct, rows: memoryview) -> list[FetchPartition]:
    if wanted is _wanted_v9:
        return [
            FetchPartition(partition, leader_epoch, offset, -1, log_start_offset, max_bytes)
            for partition, leader_epoch, offset, log_start_offset, max_bytes in wanted.iter_unpack(rows)
        ]
    if wanted is _wanted_v5:
        return [
            FetchPartition(partition, -1, offset, -1, log_start_offset, max_bytes)
            for partition, offset, log_start_offset, max_bytes in wanted.iter_unpack(rows)
        ]
    return [
        FetchPartition(partition, -1, offset, -1, -1, max_bytes)
        for partition, offset, max_bytes in wanted.iter_unpack(rows)
    ]


def _plain_string(data: memoryview, p: int) -> tuple[str, int]:
    (n,) = _short(data, p)
    p += 2
    if n < 0:
        not_nullable("a string")
    if p + n > len(data):
        overrun()
    return str(data[p : p + n], "utf-8"), p + n


def _plain_count(data: memoryview, p: int, left: int, smallest: int) -> tuple[int, int]:
    (count,) = _int(data, p)
    p += 4
    if count < 0:
        not_nullable("an array")
    if count > left or count * smallest > len(data) - p:
        too_many()
    return count, p
