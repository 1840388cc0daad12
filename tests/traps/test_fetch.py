"""Fetch: which batches a consumer gets, how many, and when."""

from __future__ import annotations

import time

import pytest

from odradek.protocol.batch import Codec
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from traps.wire import TIMEOUT_S, Wire, batch, records_of

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, UNSUPPORTED_COMPRESSION, UNKNOWN_TOPIC_ID = 1, 3, 76, 100
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH, SESSION_TOPIC_ID = 70, 71, 106


def delete_below(wire: Wire, topic: str, offset: int) -> None:
    topics = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    assert wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2).topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_an_offset_inside_a_batch_gives_the_whole_batch(wire, topic, codec):
    """T29. The client skips the records before its offset."""
    sent = batch(b"a", b"b", b"c", codec=codec)
    wire.produce(topic, sent)
    for offset in (1, 2):
        answer = wire.fetch(topic, {0: offset})[0]
        assert len(answer.records) == len(sent)
        assert [record.offset for record in records_of(answer.records)] == [0, 1, 2]


def test_first_partition_with_records_returns_a_whole_batch_despite_the_limits(wire, name):
    """T30. Otherwise a large batch could never be read. The order in the request decides which partition is first."""
    wire.create_topic(name, 3)
    for partition in (0, 2):
        wire.produce(name, batch(bytes(5000)), partition=partition)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        answer = wire.fetch(name, dict.fromkeys(order, 0), partition_max_bytes=1, max_bytes=1)
        full = next(partition for partition in order if partition != 1)
        assert {partition: len(part.records) > 5000 for partition, part in answer.items()} == {
            partition: partition == full for partition in order
        }


def test_later_partitions_respect_both_limits(wire, name):
    """T30. A batch that does not fit as a whole is left for the next fetch."""
    wire.create_topic(name, 3)
    size = len(batch(bytes(1000)))
    for partition in range(3):
        for _ in range(3):
            wire.produce(name, batch(bytes(1000)), partition=partition)
    answer = wire.fetch(name, {0: 0, 1: 0, 2: 0}, partition_max_bytes=2 * size + 5, max_bytes=3 * size + 7)
    assert [len(records_of(answer[partition].records)) for partition in range(3)] == [2, 1, 0]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_records_are_empty_and_never_null(wire, topic, version):
    """T31. librdkafka rejects null records, also in replies with an error."""
    assert wire.fetch(topic, {0: 0}, version=version)[0].records == b""
    assert wire.fetch(topic, {0: 5}, version=version)[0].records == b""
    assert wire.fetch(topic, {9: 0}, version=version)[9].records == b""


@pytest.mark.parametrize("version", [5, 12, 18])
def test_fetch_returns_watermarks_with_success_and_minus_one_with_an_error(wire, topic, version):
    """T32. Lag is computed from them."""
    wire.produce(topic, batch(b"a", b"b", b"c"))
    delete_below(wire, topic, 1)
    part = wire.fetch(topic, {0: 3}, version=version)[0]
    assert (part.error_code, part.high_watermark, part.last_stable_offset, part.log_start_offset) == (0, 3, 3, 1)
    part = wire.fetch(topic, {0: 4}, version=version)[0]
    assert part.error_code == OFFSET_OUT_OF_RANGE
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("offset", "error"), [(0, OFFSET_OUT_OF_RANGE), (1, 0), (3, 0), (4, OFFSET_OUT_OF_RANGE), (-1, OFFSET_OUT_OF_RANGE)]
)
def test_offsets_from_log_start_to_log_end_are_in_range(wire, topic, offset, error):
    """T33. Consumers wait at the log end itself."""
    wire.produce(topic, batch(b"a", b"b", b"c"))
    delete_below(wire, topic, 1)
    assert wire.fetch(topic, {0: offset})[0].error_code == error


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_waiting_fetch_returns_when_a_record_is_committed(broker, wire, topic, isolation_level):
    """T34. Long before max_wait_ms."""
    request = wire.fetch_request(topic, {0: 0}, max_wait_ms=60_000, isolation_level=isolation_level)
    wire.post(request, 12)
    with Wire(broker.port) as producer:
        producer.produce(topic, batch(b"woke you"))
    _, answer = wire.collect(request, 12)
    assert [record.value for record in records_of(answer.responses[0].partitions[0].records)] == [b"woke you"]


def test_waiting_fetch_returns_empty_after_max_wait(wire, topic):
    """T34. With an empty reply, not an error, and before the client times out."""
    started = time.monotonic()
    assert wire.fetch(topic, {0: 0}, max_wait_ms=100)[0].error_code == 0
    assert time.monotonic() - started > 0.09


def test_fetch_with_an_error_returns_at_once(wire, topic):
    """T34. The client has to act on it."""
    max_wait_ms = 300_000
    assert max_wait_ms > TIMEOUT_S * 1000
    assert wire.fetch(topic, {0: 0, 9: 0}, max_wait_ms=max_wait_ms)[9].error_code == UNKNOWN_TOPIC


class Session:
    """An incremental fetch session (KIP-227) on all partitions of a topic."""

    def __init__(self, wire: Wire, topic: str, partitions: int, version: int = 12) -> None:
        self._wire, self._version = wire, version
        request = wire.fetch_request(topic, dict.fromkeys(range(partitions), 0), version=version, session_epoch=0)
        first = wire.ask(request, version)
        assert first.error_code == 0
        self.session_id = first.session_id
        self.named = [part.partition_index for answer in first.responses for part in answer.partitions]

    def ask(self, epoch: int, **fields) -> tuple[int, dict[int, int]]:
        """The error, and the number of records of each returned partition."""
        request = FetchRequest(**{"session_id": self.session_id, "session_epoch": epoch, "min_bytes": 1, **fields})
        answer = self._wire.ask(request, self._version)
        parts = [part for topic in answer.responses for part in topic.partitions]
        return answer.error_code, {part.partition_index: len(records_of(part.records)) for part in parts}


def test_fetch_session_returns_all_partitions_once_and_then_only_changed_ones(broker, wire, name):
    """T35."""
    wire.create_topic(name, 3)
    session = Session(wire, name, 3)
    assert session.session_id > 0
    assert session.named == [0, 1, 2]
    assert session.ask(1) == (0, {})
    with Wire(broker.port) as producer:
        producer.produce(name, batch(b"x"), partition=1)
    assert session.ask(2) == (0, {1: 1})


def test_incremental_fetch_without_partitions_waits_for_its_whole_session(broker, wire, name):
    """T35. It is not an empty fetch."""
    wire.create_topic(name, 2)
    session = Session(wire, name, 2)
    request = FetchRequest(session_id=session.session_id, session_epoch=1, max_wait_ms=60_000, min_bytes=1)
    wire.post(request, 12)
    with Wire(broker.port) as producer:
        producer.produce(name, batch(b"x"), partition=1)
    _, answer = wire.collect(request, 12)
    assert [part.partition_index for part in answer.responses[0].partitions] == [1]


def test_unknown_fetch_session_or_wrong_session_epoch_is_an_error(wire, topic):
    """T35. The client starts a new session after each of these errors."""
    session = Session(wire, topic, 1)
    assert session.ask(2) == (INVALID_SESSION_EPOCH, {})
    assert session.ask(1, session_id=session.session_id + 1) == (SESSION_ID_NOT_FOUND, {})
    assert session.ask(1) == (0, {})
    assert session.ask(-1)[0] == 0
    assert session.ask(2) == (SESSION_ID_NOT_FOUND, {})


def test_fetch_session_cannot_change_between_topic_names_and_ids(wire, topic):
    """T35."""
    session = Session(wire, topic, 1)
    request = FetchRequest(session_id=session.session_id, session_epoch=1)
    assert wire.ask(request, 13).error_code == SESSION_TOPIC_ID


def test_fetch_without_a_session_returns_session_id_zero(wire, topic):
    """T35. Epoch -1 asks for no session, and version 6 has no sessions."""
    request = wire.fetch_request(topic, {0: 0}, session_epoch=-1)
    assert [wire.ask(request, 12).session_id for _ in range(2)] == [0, 0]


def test_read_committed_returns_everything_without_transactions(wire, topic):
    """T37. The last stable offset is the high watermark; the list of aborted transactions is empty, not null."""
    wire.produce(topic, batch(b"a", b"b"))
    committed = wire.fetch(topic, {0: 0}, isolation_level=1)[0]
    assert (committed.last_stable_offset, len(records_of(committed.records))) == (2, 2)
    assert not committed.aborted_transactions


@pytest.mark.parametrize(("version", "error"), [(4, UNSUPPORTED_COMPRESSION), (9, UNSUPPORTED_COMPRESSION), (10, 0)])
def test_zstd_batch_is_refused_for_fetch_versions_without_zstd(wire, topic, version, error):
    """T40."""
    wire.produce(topic, batch(b"x", codec=Codec.ZSTD))
    assert wire.fetch(topic, {0: 0}, version=version)[0].error_code == error


@pytest.mark.parametrize("topic_id", [bytes(16), bytes(range(16))])
def test_unknown_topic_id_is_an_error_with_that_id(wire, topic_id):
    """T18. The reply has that id, because the client identifies its topics only by id."""
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=100)])]
    (answer,) = wire.ask(FetchRequest(topics=topics), 13).responses
    assert (answer.topic_id, answer.partitions[0].error_code) == (topic_id, UNKNOWN_TOPIC_ID)
