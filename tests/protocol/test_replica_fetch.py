"""The follower's Fetch codec compared with the compiled codec, our leader's codec and kio, and with invalid input."""

from __future__ import annotations

import contextlib
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v17 import request as kio_requests
from kio.schema.fetch.v17 import response as kio_responses
from kio.serial import entity_reader, entity_writer

from odradek.base import limits
from odradek.base.ids import ZERO_UUID
from odradek.protocol.fetch import FetchPartition, decode_fetch_request
from odradek.protocol.fetch_response import DivergingEpoch, FetchedPartition, SnapshotId, encode_fetch_response
from odradek.protocol.leader_hints import CurrentLeader, NodeEndpoint
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages import p01_fetch as messages
from odradek.protocol.replica_fetch import VERSION, FetchReply, decode_fetch_response, encode_fetch_request
from support.messages import Instances

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
topic_ids = st.binary(min_size=16, max_size=16)
partitions = st.builds(FetchPartition, int32s, int32s, int64s, int32s, int64s, int32s)
# From 127 partitions on, the count takes a second byte.
counts = st.sampled_from([0, 1, 3, 127, 130])


@given(
    st.lists(st.tuples(topic_ids, st.builds(lambda row, count: [row] * count, partitions, counts)), max_size=3),
    st.lists(st.tuples(topic_ids, st.lists(int32s, max_size=4)), max_size=3),
    st.tuples(int32s, int64s, int32s, int32s, int32s, int32s, int32s),
    st.none() | st.text(max_size=40),
    st.just(ZERO_UUID) | topic_ids,
)
def test_requests_are_written_as_the_compiled_codec_writes_them(topics, forgotten, numbers, cluster_id, directory_id):
    replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch = numbers
    message = messages.FetchRequest(
        cluster_id=cluster_id,
        replica_state=messages.ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            messages.FetchTopic(topic_id=topic_id, partitions=[compiled(row, directory_id) for row in rows])
            for topic_id, rows in topics
        ],
        forgotten_topics_data=[
            messages.ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in forgotten
        ],
    )
    body = encode_fetch_request(
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten=forgotten,
        cluster_id=cluster_id,
        directory_id=directory_id,
    )
    assert messages.FetchRequest.decode(body, VERSION) == message
    if (replica_id, replica_epoch) != (-1, -1):
        assert body == message.encode(VERSION)
    request = decode_fetch_request(memoryview(body), VERSION, 0, len(body))
    assert (request.replica_id, request.replica_epoch) == (replica_id, replica_epoch)
    assert (request.session_id, request.session_epoch) == (session_id, session_epoch)
    assert (request.topics, request.forgotten, request.cluster_id) == (topics, forgotten, cluster_id)


def compiled(row: FetchPartition, directory_id: bytes) -> messages.FetchPartition:
    return messages.FetchPartition(
        partition=row.partition,
        current_leader_epoch=row.current_leader_epoch,
        fetch_offset=row.fetch_offset,
        last_fetched_epoch=row.last_fetched_epoch,
        log_start_offset=row.log_start_offset,
        partition_max_bytes=row.max_bytes,
        replica_directory_id=directory_id,
    )


def test_kio_reads_the_request_and_writes_the_same_bytes():
    body = encode_fetch_request(
        replica_id=3,
        replica_epoch=40,
        max_wait_ms=500,
        max_bytes=10_000_000,
        session_id=7,
        session_epoch=2,
        topics=[(b"0123456789abcdef", [FetchPartition(1, 5, 100, 4, 0, 1 << 20), FetchPartition(2, 5, 9, 4, 0, 99)])],
        forgotten=[(b"fedcba9876543210", [0, 7])],
        cluster_id="a cluster",
        directory_id=b"a directory id..",
    )
    other, size = entity_reader(kio_requests.FetchRequest)(body, 0)
    assert size == len(body)
    assert (other.replica_state.replica_id, other.replica_state.replica_epoch) == (3, 40)
    assert [row.fetch_offset for row in other.topics[0].partitions] == [100, 9]
    assert other.topics[0].partitions[1].replica_directory_id.bytes == b"a directory id.."
    output = io.BytesIO()
    entity_writer(kio_requests.FetchRequest)(output, other)
    assert output.getvalue() == body


def same(reply: FetchReply, message: messages.FetchResponse) -> None:
    assert (reply.throttle_time_ms, reply.error_code, reply.session_id) == (
        message.throttle_time_ms,
        message.error_code,
        message.session_id,
    )
    assert [tuple(hint) for hint in reply.node_endpoints] == [
        (hint.node_id, hint.host, hint.port, hint.rack) for hint in message.node_endpoints
    ]
    assert [topic_id for topic_id, _ in reply.topics] == [topic.topic_id for topic in message.responses]
    for (_, rows), topic in zip(reply.topics, message.responses, strict=True):
        for row, expected in zip(rows, topic.partitions, strict=True):
            assert row.partition == expected.partition_index
            assert row.error_code == expected.error_code
            assert row.high_watermark == expected.high_watermark
            assert row.log_start_offset == expected.log_start_offset
            assert row.records == (expected.records or b"")
            diverging, leader, snapshot = expected.diverging_epoch, expected.current_leader, expected.snapshot_id
            assert (row.diverging_epoch or (-1, -1)) == (diverging.epoch, diverging.end_offset)
            assert (row.current_leader or (-1, -1)) == (leader.leader_id, leader.leader_epoch)
            assert (row.snapshot_id or (-1, -1)) == (snapshot.end_offset, snapshot.epoch)


def test_responses_are_read_as_the_compiled_codec_reads_them():
    instances = Instances(5)
    for _ in range(300):
        message = instances.make(messages.FetchResponse, VERSION)
        same(decode_fetch_response(memoryview(message.encode(VERSION))), message)


def test_fetch_response_written_by_kio_is_decoded():
    instances = Instances(6, tame=True)
    for _ in range(30):
        message = instances.make(messages.FetchResponse, VERSION)
        theirs, _ = entity_reader(kio_responses.FetchResponse)(message.encode(VERSION), 0)
        output = io.BytesIO()
        entity_writer(kio_responses.FetchResponse)(output, theirs)
        same(decode_fetch_response(memoryview(output.getvalue())), message)


def test_response_of_our_leader_is_decoded_without_copying_records():
    batch = bytes(range(256)) * 100
    rows = [
        FetchedPartition(0, 0, 10, 9, 1, batch),
        FetchedPartition(1, 74, current_leader=CurrentLeader(2, 8)),
        FetchedPartition(2, 0, 4, 4, 0, diverging_epoch=DivergingEpoch(3, 77)),
        FetchedPartition(3, 0, 4, 4, 0, snapshot_id=SnapshotId(90, 6), aborted_transactions=[(5, 6), (7, 8)]),
    ]
    hints = [NodeEndpoint(2, "there", 9092, "rack"), NodeEndpoint(3, "here", 9092)]
    (frame,) = encode_fetch_response(VERSION, 1, [(b"0123456789abcdef", rows)], session_id=44, node_endpoints=hints)
    body = memoryview(frame)[9:]
    reply = decode_fetch_response(body)
    ((_, (first, second, third, fourth)),) = reply.topics
    assert (reply.session_id, reply.node_endpoints) == (44, hints)
    assert first.records == batch
    assert first.records.obj is frame
    assert (second.error_code, second.current_leader, second.records) == (74, (2, 8), b"")
    assert third.diverging_epoch == DivergingEpoch(3, 77)
    assert fourth.snapshot_id == SnapshotId(90, 6)


def sample() -> bytes:
    instances = Instances(3)
    candidates = [instances.make(messages.FetchResponse, VERSION) for _ in range(200)]
    return max((data for data in (each.encode(VERSION) for each in candidates) if len(data) < 2500), key=len)


def test_truncated_and_extended_responses_are_refused():
    body = sample()
    decode_fetch_response(memoryview(body))
    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode_fetch_response(memoryview(body[:end]))
    with pytest.raises(MalformedMessage):
        decode_fetch_response(memoryview(body + b"\0"))


def test_a_tagged_field_that_is_longer_than_its_content_is_refused():
    row = messages.PartitionData(diverging_epoch=messages.EpochEndOffset(epoch=1, end_offset=2))
    topics = [messages.FetchableTopicResponse(partitions=[row])]
    body = messages.FetchResponse(responses=topics).encode(VERSION)
    content = b"\x01\x00\x0d" + (1).to_bytes(4, "big") + (2).to_bytes(8, "big") + b"\0"
    longer = b"\x01\x00\x0e" + content[3:] + b"\0"
    assert body.count(content) == 1
    with pytest.raises(MalformedMessage):
        decode_fetch_response(memoryview(body.replace(content, longer)))
    hints = messages.FetchResponse(node_endpoints=[messages.NodeEndpoint()]).encode(VERSION)
    content = b"\x01\x00\x0c\x02" + bytes(4) + b"\x01" + bytes(6)
    assert hints.endswith(content)
    with pytest.raises(MalformedMessage):
        decode_fetch_response(memoryview(hints.replace(b"\x01\x00\x0c", b"\x01\x00\x0d") + b"\0"))


@given(st.data())
def test_changed_response_is_decoded_or_refused_with_bounded_memory(data):
    body = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        poison = data.draw(st.sampled_from([b"\xff" * 4, b"\xff\xff\xff\xff\x0f", b"\0\0\0\0", b"\x80" * 12]))
        body[position : position + len(poison)] = poison
    with contextlib.suppress(MalformedMessage):
        decode_fetch_response(memoryview(body))


@given(st.binary(max_size=200))
def test_random_bytes(body):
    with contextlib.suppress(MalformedMessage):
        decode_fetch_response(memoryview(body))


def test_partitions_are_counted_together(monkeypatch):
    rows = [messages.PartitionData(partition_index=index) for index in range(10)]
    body = messages.FetchResponse(responses=[messages.FetchableTopicResponse(partitions=rows)] * 5).encode(VERSION)
    assert len(decode_fetch_response(memoryview(body)).topics) == 5
    monkeypatch.setattr(limits, "array_elements_max", 40)
    with pytest.raises(MalformedMessage):
        decode_fetch_response(memoryview(body))


def test_large_claimed_count_allocates_no_memory():
    start = bytes(10)
    tracemalloc.start()
    try:
        for claim in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x07"):
            with pytest.raises(MalformedMessage):
                decode_fetch_response(memoryview(start + claim + bytes(5_000)))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
