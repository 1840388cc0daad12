"""A hand-written codec of Produce, versions 3-13. Batches are views of the receive buffer, a reply is one bytes object.

Topics are identified by name up to version 12 and by their 16-byte id from version 13 on, also in responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.protocol.headers import response_start
from odradek.protocol.leader_hints import (
    CurrentLeader,
    NodeEndpoint,
    compact_string,
    current_leader_content,
    node_endpoints_content,
)
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.wire import (
    finish_uvarint,
    not_nullable,
    overrun,
    skip_tagged,
    tagged_section,
    too_many,
    uvarint,
)

FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13

TopicKey = str | bytes

_new = tuple.__new__  # in every request: the constructor of a NamedTuple takes three times as long


class ProducedTopic(NamedTuple):
    topic: TopicKey
    partitions: list[tuple[int, memoryview | None]]  # partition and its records, a view of the request's buffer


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProducedTopic]


class ProduceOutcome:
    """The result for the batch of one partition."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
        "partition",
        "record_errors",
    )

    def __init__(
        self,
        partition: int,
        error_code: int = ErrorCode.NONE,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        *,
        record_errors: Sequence[tuple[int, str | None]] = (),
        error_message: str | None = None,
        current_leader: CurrentLeader | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors  # (index in the batch, reason)
        self.error_message = error_message
        self.current_leader = current_leader


def decode_produce_request(buffer: memoryview, version: int, position: int, end: int) -> ProduceRequest:
    """The request body in `buffer[position:end]`. Raises only MalformedMessage."""
    data = buffer[position:end]
    try:
        return _decode_flexible(data, version) if version >= FIRST_FLEXIBLE else _decode_plain(data)
    except (struct_error, IndexError) as broken:
        raise MalformedMessage(f"a Produce v{version} request is incomplete") from broken
    except UnicodeDecodeError as broken:
        raise MalformedMessage(f"Produce v{version} has a string that is not UTF-8") from broken


# Make NamedTuples from tuples directly: their Python constructors are slow.
_as_topic = partial(tuple.__new__, ProducedTopic)

_acks_timeout_count = Struct(">hiB").unpack_from
_index_and_size = Struct(">iB").unpack_from


def _decode_flexible(data: memoryview, version: int) -> ProduceRequest:
    left = limits.array_elements_max
    transactional_id = None
    if data[0]:
        transactional_id, p = _compact_string(data, 0)
    else:
        p = 1
    acks, timeout_ms, count = _acks_timeout_count(data, p)
    p += 7
    if count > 127:
        count, p = finish_uvarint(data, p, count)
    if not count:
        not_nullable("topic_data")
    left -= count
    topics = []
    topic: TopicKey
    for _ in range(count - 1):
        if version >= FIRST_WITH_TOPIC_IDS:
            topic = bytes(data[p : p + 16])
            p += 16
        else:
            topic, p = _compact_string(data, p)
        count = data[p]
        p += 1
        if count > 127:
            count, p = finish_uvarint(data, p, count)
        left -= count
        if left < 0:
            too_many()
        partitions, p = _flexible_partitions(data, p, count)
        topics.append(_new(ProducedTopic, (topic, partitions)))
    p = skip_tagged(data, p + 1, data[p]) if data[p] else p + 1
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _flexible_partitions(data: memoryview, p: int, count: int) -> tuple[list[tuple[int, memoryview | None]], int]:
    """The partitions of one topic and its tagged fields."""
    if not count:
        not_nullable("partition_data")
    end = len(data)
    partitions: list[tuple[int, memoryview | None]] = []
    for _ in range(count - 1):
        index, size = _index_and_size(data, p)
        p += 5
        if size > 127:
            second = data[p]
            if second > 127:
                size, p = finish_uvarint(data, p, size)
            else:
                size = size & 127 | second << 7
                p += 1
        if size:
            q = p + size - 1
            if q > end:
                overrun()
            partitions.append((index, data[p:q]))
            p = q
        else:
            partitions.append((index, None))
        p = skip_tagged(data, p + 1, data[p]) if data[p] else p + 1
    return partitions, skip_tagged(data, p + 1, data[p]) if data[p] else p + 1


def _compact_string(data: memoryview, p: int) -> tuple[str, int]:
    n = data[p]
    p += 1
    if n > 127:
        n, p = finish_uvarint(data, p, n)
    if not n:
        not_nullable("topic name")
    q = p + n - 1
    if q > len(data):
        overrun()
    return str(data[p:q], "utf-8"), q


_short = Struct(">h").unpack_from
_int = Struct(">i").unpack_from
_acks_timeout_count_plain = Struct(">hii").unpack_from
_index_and_size_plain = Struct(">ii").unpack_from


def _decode_plain(data: memoryview) -> ProduceRequest:
    end = len(data)
    left = limits.array_elements_max
    transactional_id = None
    (n,) = _short(data, 0)
    p = 2
    if n >= 0:
        transactional_id, p = _plain_string(data, p, n, end)
    elif n != -1:
        not_nullable("transactional_id")
    acks, timeout_ms, topic_count = _acks_timeout_count_plain(data, p)
    p += 10
    left -= topic_count
    if topic_count < 0:
        not_nullable("topic_data")
    topics = []
    for _ in range(topic_count):
        (n,) = _short(data, p)
        topic, p = _plain_string(data, p + 2, n, end)
        (n,) = _int(data, p)
        p += 4
        left -= n
        if n < 0:
            not_nullable("partition_data")
        if left < 0:
            too_many()
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(n):
            index, size = _index_and_size_plain(data, p)
            p += 8
            if size >= 0:
                q = p + size
                if q > end:
                    overrun()
                partitions.append((index, data[p:q]))
                p = q
            elif size == -1:
                partitions.append((index, None))
            else:
                not_nullable("records")
        topics.append(ProducedTopic(topic, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _plain_string(data: memoryview, p: int, n: int, end: int) -> tuple[str, int]:
    if n < 0:
        not_nullable("topic name")
    q = p + n
    if q > end:
        overrun()
    return str(data[p:q], "utf-8"), q


ProducedOutcomes = Sequence[tuple[TopicKey, Sequence[ProduceOutcome]]]

_outcome_v3 = Struct(">ihqq").pack
_outcome_v5 = Struct(">ihqqq").pack
_outcome_v8 = Struct(">ihqqqih").pack
_outcome_flexible = Struct(">ihqqqBBB").pack
_count_plain = Struct(">i").pack
_length_plain = Struct(">h").pack
_NO_ERRORS = (0, -1)  # no record errors, no message


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: ProducedOutcomes,
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The whole frame."""
    flexible = version >= FIRST_FLEXIBLE
    is_one = flexible and len(topics) == 1 and len(topics[0][1]) == 1
    if is_one and not topics[0][1][0].error_code and not node_endpoints:
        return _one_success(correlation_id, topics[0][0], topics[0][1][0], throttle_time_ms)
    parts = [b"", uvarint(len(topics) + 1) if flexible else _count_plain(len(topics))]
    for topic, outcomes in topics:
        if flexible:
            parts.append(topic if isinstance(topic, bytes) else compact_string(topic))
            parts.append(uvarint(len(outcomes) + 1))
            parts += [
                _failure(outcome, version)
                if outcome.error_code
                else _outcome_flexible(
                    outcome.partition,
                    0,
                    outcome.base_offset,
                    outcome.log_append_time_ms,
                    outcome.log_start_offset,
                    1,  # no record errors
                    0,  # no message
                    0,  # no tagged fields
                )
                for outcome in outcomes
            ]
            parts.append(b"\0")
        else:
            name = topic.encode() if isinstance(topic, str) else topic
            parts += (_length_plain(len(name)), name, _count_plain(len(outcomes)))
            parts += [_plain_outcome(outcome, version) for outcome in outcomes]
    parts.append(_count_plain(throttle_time_ms))
    if flexible:
        hints = node_endpoints if version >= 10 else ()
        parts.append(tagged_section([(0, node_endpoints_content(hints))]) if hints else b"\0")
    parts[0] = response_start(correlation_id, tagged=flexible, body_bytes=sum(map(len, parts)))
    return b"".join(parts)


_one_start = Struct(">iixB").pack  # length, correlation id, (no tagged fields), one topic
_one_rest = Struct(">BihqqqBBBxix").pack  # one partition, its outcome, (no tagged fields), throttle time, (none either)


def _one_success(correlation_id: int, topic: TopicKey, outcome: ProduceOutcome, throttle_time_ms: int) -> bytes:
    """The most common reply, one successful partition, packed at once."""
    name = topic if isinstance(topic, bytes) else compact_string(topic)
    rest = _one_rest(
        2,
        outcome.partition,
        0,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        1,
        0,
        0,
        throttle_time_ms,
    )
    return _one_start(6 + len(name) + len(rest), correlation_id, 2) + name + rest


def _failure(outcome: ProduceOutcome, version: int) -> bytes:
    fixed = _outcome_v5(
        outcome.partition,
        outcome.error_code,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
    )
    parts = [fixed, uvarint(len(outcome.record_errors) + 1)]
    for index, why in outcome.record_errors:
        parts += (_count_plain(index), b"\0" if why is None else compact_string(why), b"\0")
    parts.append(b"\0" if outcome.error_message is None else compact_string(outcome.error_message))
    leader = outcome.current_leader if version >= 10 else None
    parts.append(b"\0" if leader is None else tagged_section([(0, current_leader_content(leader))]))
    return b"".join(parts)


def _plain_outcome(outcome: ProduceOutcome, version: int) -> bytes:
    basic = (outcome.partition, outcome.error_code, outcome.base_offset, outcome.log_append_time_ms)
    if version < 5:
        return _outcome_v3(*basic)
    if version < 8:
        return _outcome_v5(*basic, outcome.log_start_offset)
    if not outcome.error_code:
        return _outcome_v8(*basic, outcome.log_start_offset, *_NO_ERRORS)
    parts = [_outcome_v5(*basic, outcome.log_start_offset), _count_plain(len(outcome.record_errors))]
    for index, why in outcome.record_errors:
        parts += (_count_plain(index), _nullable_plain_string(why))
    parts.append(_nullable_plain_string(outcome.error_message))
    return b"".join(parts)


def _nullable_plain_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _length_plain(len(encoded)) + encoded
