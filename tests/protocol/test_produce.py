"""The hand-written Produce codec compared with the compiled one, which is tested against other libraries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base import limits
from odradek.protocol import produce
from odradek.protocol.leader_hints import CurrentLeader, NodeEndpoint
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages import p00_produce as messages
from odradek.protocol.produce import ProduceOutcome, decode_produce_request, encode_produce_response
from support.messages import Instances

VERSIONS = range(3, 14)
texts = st.none() | st.text(max_size=200)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)


def decode(body: bytes, version: int) -> produce.ProduceRequest:
    buffer = memoryview(bytearray(b"before" + body + b"after"))
    return decode_produce_request(buffer, version, 6, 6 + len(body))


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_are_read_as_the_compiled_codec_reads_them(version: int) -> None:
    instances = Instances(version)
    for _ in range(30):
        message = instances.make(messages.ProduceRequest, version)
        request = decode(message.encode(version), version)
        assert request.transactional_id == message.transactional_id
        assert (request.acks, request.timeout_ms) == (message.acks, message.timeout_ms)
        assert request.topics == [
            (
                topic.topic_id if version >= 13 else topic.name,
                [(row.index, row.records) for row in topic.partition_data],
            )
            for topic in message.topic_data
        ]


def test_records_are_views_of_the_buffer() -> None:
    row = messages.PartitionProduceData(index=1, records=b"batch")
    body = messages.ProduceRequest(topic_data=[messages.TopicProduceData(name="t", partition_data=[row])]).encode(9)
    buffer = bytearray(body)
    request = decode_produce_request(memoryview(buffer), 9, 0, len(body))
    buffer[body.index(b"batch")] = ord("B")
    assert request.topics[0].partitions[0][1] == b"Batch"


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_requests_are_refused_and_what_follows_is_ignored(version: int) -> None:
    rows = [messages.PartitionProduceData(index=1), messages.PartitionProduceData(index=2, records=b"batch")]
    topics = [messages.TopicProduceData(name="orders", partition_data=rows)]
    body = messages.ProduceRequest(transactional_id="id", topic_data=topics).encode(version)
    decode(body, version)
    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode(body[:end], version)
    whole = messages.ProduceRequest().encode(version)
    assert decode(whole + b"\0", version).topics == []


@pytest.mark.parametrize("version", [8, 9, 13])
def test_partitions_are_counted_together(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [messages.PartitionProduceData(index=index, records=b"") for index in range(10)]
    topics = [messages.TopicProduceData(name="t", partition_data=rows)] * 5
    body = messages.ProduceRequest(topic_data=topics).encode(version)
    assert len(decode(body, version).topics) == 5
    monkeypatch.setattr(limits, "array_elements_max", 40)
    with pytest.raises(MalformedMessage):
        decode(body, version)


outcomes = st.builds(
    ProduceOutcome,
    st.integers(0, 1 << 30),
    st.sampled_from([0, 3, 6, 87]),
    int64s,
    int64s,
    int64s,
    record_errors=st.lists(st.tuples(st.integers(0, 9), texts), max_size=3),
    error_message=texts,
    current_leader=st.none() | st.builds(CurrentLeader, st.integers(0, 9), st.integers(0, 9)),
)
endpoints = st.lists(st.builds(NodeEndpoint, st.integers(0, 9), st.text(max_size=20), st.integers(0, 65535), texts))


@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.text(max_size=150), st.binary(min_size=16, max_size=16), st.lists(outcomes, max_size=4))),
    st.integers(0, 1000),
    endpoints,
)
def test_responses_are_written_as_the_compiled_codec_writes_them(version, topics, throttle_time_ms, hints) -> None:
    message = messages.ProduceResponse(
        responses=[
            messages.TopicProduceResponse(
                name=name, topic_id=topic_id, partition_responses=[compiled(outcome) for outcome in rows]
            )
            for name, topic_id, rows in topics
        ],
        throttle_time_ms=throttle_time_ms,
        node_endpoints=[messages.NodeEndpoint(**hint._asdict()) for hint in hints],
    )
    frame = encode_produce_response(
        version,
        77,
        [(topic_id if version >= 13 else name, rows) for name, topic_id, rows in topics],
        throttle_time_ms=throttle_time_ms,
        node_endpoints=hints,
    )
    header = b"\0\0\0\x4d" + (b"\0" if version >= 9 else b"")
    body = header + message.encode(version)
    assert frame == len(body).to_bytes(4, "big") + body


def compiled(outcome: ProduceOutcome) -> messages.PartitionProduceResponse:
    """Error details are sent only with an error."""
    failed = outcome.error_code != 0
    leader = outcome.current_leader if failed else None
    return messages.PartitionProduceResponse(
        index=outcome.partition,
        error_code=outcome.error_code,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        record_errors=[
            messages.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
            for index, why in (outcome.record_errors if failed else ())
        ],
        error_message=outcome.error_message if failed else None,
        current_leader=messages.LeaderIdAndEpoch(**leader._asdict()) if leader else messages.LeaderIdAndEpoch(),
    )
