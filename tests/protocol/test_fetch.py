"""The hand-written Fetch codec compared with the compiled one, which is tested against other libraries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base import limits
from odradek.base.ports import Region
from odradek.protocol import fetch
from odradek.protocol.fetch import decode_fetch_request
from odradek.protocol.fetch_response import DivergingEpoch, FetchedPartition, SnapshotId, encode_fetch_response
from odradek.protocol.leader_hints import CurrentLeader, NodeEndpoint
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages import p01_fetch as messages
from support.messages import Instances

VERSIONS = range(4, 19)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)


def decode(body: bytes, version: int) -> fetch.FetchRequest:
    buffer = memoryview(bytearray(b"before" + body + b"after"))
    return decode_fetch_request(buffer, version, 6, 6 + len(body))


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_as_the_compiled_codec_reads_them(version: int) -> None:
    instances = Instances(version)
    for _ in range(60):
        encoded = instances.make(messages.FetchRequest, version).encode(version)
        message = messages.FetchRequest.decode(encoded, version)
        request = decode(encoded, version)
        replica = message.replica_state if version >= 15 else message
        assert request.replica_id == replica.replica_id
        assert request.replica_epoch == message.replica_state.replica_epoch
        for name in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch"):
            assert getattr(request, name) == getattr(message, name)
        assert (request.rack_id, request.cluster_id) == (message.rack_id, message.cluster_id)
        assert request.forgotten == [
            (topic.topic_id if version >= 13 else topic.topic, topic.partitions)
            for topic in message.forgotten_topics_data
        ]
        assert request.topics == [
            (topic.topic_id if version >= 13 else topic.topic, [wanted(row) for row in topic.partitions])
            for topic in message.topics
        ]


def wanted(row: messages.FetchPartition) -> fetch.FetchPartition:
    return fetch.FetchPartition(
        partition=row.partition,
        current_leader_epoch=row.current_leader_epoch,
        fetch_offset=row.fetch_offset,
        last_fetched_epoch=row.last_fetched_epoch,
        log_start_offset=row.log_start_offset,
        max_bytes=row.partition_max_bytes,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_requests_are_refused_and_what_follows_is_ignored(version: int) -> None:
    rows = [messages.FetchPartition(partition=1), messages.FetchPartition(partition=2, high_watermark=5)]
    body = messages.FetchRequest(
        topics=[messages.FetchTopic(topic="orders", partitions=rows)],
        forgotten_topics_data=[messages.ForgottenTopic(topic="old", partitions=[1, 2])],
        rack_id="here",
        cluster_id="cluster",
        replica_state=messages.ReplicaState(replica_id=3),
    ).encode(version)
    decode(body, version)
    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode(body[:end], version)
    decode(body + b"\0", version)


@pytest.mark.parametrize("version", [4, 11, 12, 13])
def test_partitions_are_counted_together(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [messages.FetchPartition(partition=index) for index in range(10)]
    body = messages.FetchRequest(topics=[messages.FetchTopic(topic="t", partitions=rows)] * 5).encode(version)
    assert len(decode(body, version).topics) == 5
    monkeypatch.setattr(limits, "array_elements_max", 40)
    with pytest.raises(MalformedMessage):
        decode(body, version)


class Store:
    """A file that counts how often it is pinned."""

    path = "segment"

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.pins = 0

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1

    def pread(self, length: int, position: int) -> bytes:
        return self.content[position : position + length]


fetched = st.builds(
    FetchedPartition,
    int32s,
    st.sampled_from([0, 1, 6]),
    int64s,
    int64s,
    int64s,
    st.none() | st.binary(max_size=300) | st.builds(lambda data: Region(Store(data), 0, len(data)), st.binary()),
    aborted_transactions=st.none() | st.lists(st.tuples(int64s, int64s), max_size=3),
    preferred_read_replica=int32s,
    diverging_epoch=st.none() | st.builds(DivergingEpoch, st.integers(0, 9), int64s),
    current_leader=st.none() | st.builds(CurrentLeader, st.integers(0, 9), int32s),
    snapshot_id=st.none() | st.builds(SnapshotId, st.integers(0, 9), int32s),
)
endpoints = st.lists(
    st.builds(NodeEndpoint, int32s, st.text(max_size=9), int32s, st.none() | st.text(max_size=9)), max_size=2
)


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.text(max_size=150), st.binary(min_size=16, max_size=16), st.lists(fetched, max_size=4))),
    st.integers(0, 99),
    endpoints,
)
def test_responses_are_written_as_the_compiled_codec_writes_them(version, topics, number, hints) -> None:
    message = messages.FetchResponse(
        throttle_time_ms=number,
        error_code=number,
        session_id=number,
        responses=[
            messages.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[compiled(row) for row in rows])
            for name, topic_id, rows in topics
        ],
        node_endpoints=[messages.NodeEndpoint(**hint._asdict()) for hint in hints],
    )
    parts = encode_fetch_response(
        version,
        77,
        [(topic_id if version >= 13 else name, rows) for name, topic_id, rows in topics],
        throttle_time_ms=number,
        error_code=number,
        session_id=number,
        node_endpoints=hints,
    )
    frame = b"".join(part.read() if isinstance(part, Region) else part for part in parts)
    body = b"\0\0\0\x4d" + (b"\0" if version >= 12 else b"") + message.encode(version)
    assert frame == len(body).to_bytes(4, "big") + body
    handed_in = [row.records for _, _, rows in topics for row in rows if isinstance(row.records, Region)]
    assert [part for part in parts if isinstance(part, Region)] == handed_in


def compiled(row: FetchedPartition) -> messages.PartitionData:
    records = row.records.read() if isinstance(row.records, Region) else row.records
    data = messages.PartitionData(
        partition_index=row.partition,
        error_code=row.error_code,
        high_watermark=row.high_watermark,
        last_stable_offset=row.last_stable_offset,
        log_start_offset=row.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=row.preferred_read_replica,
        records=records or b"",  # never null: librdkafka rejects a reply with null records
    )
    if row.aborted_transactions is not None:
        data.aborted_transactions = [
            messages.AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in row.aborted_transactions
        ]
    if row.diverging_epoch is not None:
        data.diverging_epoch = messages.EpochEndOffset(
            epoch=row.diverging_epoch.leader_epoch, end_offset=row.diverging_epoch.end_offset
        )
    if row.current_leader is not None:
        data.current_leader = messages.LeaderIdAndEpoch(**row.current_leader._asdict())
    if row.snapshot_id is not None:
        data.snapshot_id = messages.SnapshotId(
            end_offset=row.snapshot_id.end_offset, epoch=row.snapshot_id.leader_epoch
        )
    return data
