"""What a producer may send, and how it is stored. Batches are changed by hand and get a new checksum."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch

from odradek.protocol.batch import Codec
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from traps.wire import Wire, batch, now_ms, records_of

CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, OUT_OF_ORDER, INVALID_PRODUCER_EPOCH = 2, 10, 32, 45, 47
INVALID_TOPIC, UNSUPPORTED_COMPRESSION, INVALID_RECORD = 17, 76, 87

MAX_MESSAGE_BYTES = 1_048_588
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08
HOUR_MS = 3_600_000


def changed(data: bytes, layout: str, position: int, value: int) -> bytes:
    """The batch with another header value and a correct checksum."""
    copy = bytearray(data)
    struct.pack_into(layout, copy, position, value)
    struct.pack_into(">I", copy, 17, crc32c(bytes(copy[21:])))
    return bytes(copy)


def stored(wire: Wire, topic: str) -> bytes:
    return wire.fetch(topic, {0: 0})[0].records


@pytest.mark.parametrize("records", [1, 3])
def test_batches_of_client_libraries_are_accepted(wire, topic, records):
    answer = wire.produce(topic, batch(*[b"x"] * records))
    assert (answer.error_code, answer.base_offset) == (0, 0)


ONE = bytes(batch(b"one"))
TWO = bytes(batch(b"one", b"two"))
REFUSED = {
    "no batch": (b"", INVALID_RECORD),
    "null": (None, INVALID_RECORD),
    "two batches": (ONE + ONE, INVALID_RECORD),
    "an older format": (changed(ONE, ">b", 16, 1), INVALID_RECORD),
    "a newer format": (changed(ONE, ">b", 16, 3), INVALID_RECORD),
    "a base offset": (changed(ONE, ">q", 0, 7), INVALID_RECORD),
    "a count above the offsets": (changed(TWO, ">i", 57, 3), INVALID_RECORD),
    "offsets above the count": (changed(TWO, ">i", 23, 2), INVALID_RECORD),
    "a negative count": (changed(TWO, ">i", 57, -1), INVALID_RECORD),
    "a control batch": (changed(ONE, ">h", 21, CONTROL), INVALID_RECORD),
    "a producer without a sequence": (changed(changed(ONE, ">q", 43, 5), ">h", 51, 0), INVALID_RECORD),
    "a wrong checksum": (ONE[:-1] + bytes([ONE[-1] ^ 1]), CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("why", REFUSED)
def test_exactly_one_well_formed_batch_per_partition(wire, topic, why):
    """T22. A refused batch stores nothing."""
    data, error = REFUSED[why]
    answer = wire.produce(topic, data)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert stored(wire, topic) == b""
    assert wire.produce(topic, ONE).base_offset == 0


def test_clients_cannot_produce_to_internal_topics(wire):
    """As in Kafka: the broker trusts these records, and they could change or delete offsets of any group."""
    wire.ask(FindCoordinatorRequest(key="any"), 0)
    for version in (9, 13):
        assert wire.produce("__consumer_offsets", batch(b"v", key=b"k"), version=version).error_code == INVALID_TOPIC


@pytest.mark.parametrize(
    "data",
    [changed(ONE, ">i", 8, length) for length in (0, 10, len(ONE) - 13, len(ONE) - 11, 2**31 - 1, -1)] + [ONE[:60]],
    ids=lambda data: f"length {struct.unpack_from('>i', data, 8)[0]} of {len(data)}",
)
def test_batch_with_a_wrong_length_is_refused(wire, topic, data):
    """T22. It is neither shorter than its header nor longer than the sent bytes."""
    assert wire.produce(topic, data).error_code in (CORRUPT_MESSAGE, INVALID_RECORD)
    assert stored(wire, topic) == b""


@pytest.mark.parametrize(("version", "error"), [(3, UNSUPPORTED_COMPRESSION), (6, UNSUPPORTED_COMPRESSION), (7, 0)])
def test_zstd_is_refused_before_produce_version_7(wire, topic, version, error):
    """T22. Older clients could not read it."""
    assert wire.produce(topic, batch(b"x", codec=Codec.ZSTD), version=version).error_code == error


def test_broker_changes_only_base_offset_and_leader_epoch_of_a_batch(wire, topic):
    """T23. The checksum does not cover these two fields, so it stays the producer's."""
    sent = bytes(batch(b"one", b"two", codec=Codec.LZ4))
    wire.produce(topic, ONE)
    assert wire.produce(topic, sent).base_offset == 1
    second = stored(wire, topic)[len(ONE) :]
    assert struct.unpack_from(">q", second) == (1,)
    assert second[8:12] == sent[8:12]
    assert struct.unpack_from(">i", second, 12) == (wire.metadata(topic, 7).topics[0].partitions[0].leader_epoch,)
    assert second[16:] == sent[16:]


def test_log_append_time_is_written_into_the_batch_with_a_new_checksum(wire, name):
    """T23. The checksum covers attributes and largest timestamp. kafka-python reads the result."""
    wire.create_topic(name, message_timestamp_type="LogAppendTime")
    before = now_ms()
    answer = wire.produce(name, batch(b"one", b"two", timestamp=1))
    assert before <= answer.log_append_time_ms <= now_ms()
    data = stored(wire, name)
    assert struct.unpack_from(">I", data, 17) == (crc32c(data[21:]),)
    assert struct.unpack_from(">h", data, 21)[0] & LOG_APPEND_TIME
    read = DefaultRecordBatch(data)
    assert read.validate_crc()
    assert [record.timestamp for record in read] == [answer.log_append_time_ms] * 2


def test_size_limit_applies_to_the_whole_batch_including_its_header(wire, topic):
    """T24. 1 MiB and 12 bytes are allowed, header included."""
    overhead = len(batch(bytes(1_000_000))) - 1_000_000
    assert wire.produce(topic, batch(bytes(MAX_MESSAGE_BYTES - overhead))).error_code == 0
    assert wire.produce(topic, batch(bytes(MAX_MESSAGE_BYTES - overhead + 1))).error_code == MESSAGE_TOO_LARGE


def test_size_limit_applies_to_compressed_bytes(wire, topic):
    """T24. Five megabytes of zeros are a small batch."""
    assert wire.produce(topic, batch(bytes(5_000_000), codec=Codec.ZSTD)).error_code == 0


@pytest.mark.parametrize("version", [3, 7, 8, 13])
def test_error_of_a_compacted_topic_names_the_record_without_key(wire, name, version):
    """T25. From version 8 on."""
    wire.create_topic(name, cleanup_policy="compact")
    assert wire.produce(name, batch(b"x", key=b"k"), version=version).error_code == 0
    answer = wire.produce(name, batch(b"x", b"y"), version=version)
    assert answer.error_code == INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == ([0, 1] if version >= 8 else [])


@pytest.mark.parametrize(
    ("shift_ms", "error"),
    [(HOUR_MS - 60_000, 0), (HOUR_MS + 60_000, INVALID_TIMESTAMP), (-50 * 365 * 24 * HOUR_MS, 0)],
)
def test_timestamps_may_be_one_hour_ahead_and_arbitrarily_old(wire, topic, shift_ms, error):
    """T26. The default since 4.0."""
    assert wire.produce(topic, batch(b"x", timestamp=now_ms() + shift_ms)).error_code == error


class Idempotent:
    def __init__(self, wire: Wire, topic: str) -> None:
        self._wire, self._topic = wire, topic
        self.producer_id = wire.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id

    def send(self, sequence: int, *values: bytes, epoch: int = 0) -> tuple[int, int]:
        """Error and offset."""
        data = batch(*(values or (b"x",)), producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence)
        answer = self._wire.produce(self._topic, data)
        return answer.error_code, answer.base_offset


def test_retried_batch_is_acknowledged_with_its_first_offset_and_not_stored_again(wire, topic):
    """T27. The last five batches are remembered, and retries may come in any order."""
    producer = Idempotent(wire, topic)
    assert [producer.send(number) for number in range(6)] == [(0, number) for number in range(6)]
    assert [producer.send(number) for number in (5, 1, 3)] == [(0, 5), (0, 1), (0, 3)]
    assert len(records_of(stored(wire, topic))) == 6


def test_retry_older_than_five_batches_or_with_another_range_is_out_of_order(wire, topic):
    """T27. The broker no longer knows the offset of this batch."""
    producer = Idempotent(wire, topic)
    for number in range(6):
        producer.send(2 * number, b"a", b"b")
    assert producer.send(0, b"a", b"b")[0] == OUT_OF_ORDER
    assert producer.send(10, b"a")[0] == OUT_OF_ORDER


def test_sequence_gap_is_out_of_order(wire, topic):
    """T27. The missing batch may still arrive."""
    producer = Idempotent(wire, topic)
    producer.send(0)
    assert producer.send(2) == (OUT_OF_ORDER, -1)
    assert producer.send(1) == (0, 1)


def test_unknown_producer_may_begin_with_any_sequence_number(wire, topic):
    """T27. Its older batches may have been deleted."""
    producer = Idempotent(wire, topic)
    assert producer.send(41) == (0, 0)
    assert producer.send(42) == (0, 1)


def test_new_producer_epoch_begins_at_0_and_fences_the_old_one(wire, topic):
    """T27. Produce returns INVALID_PRODUCER_EPOCH, never PRODUCER_FENCED (T56)."""
    producer = Idempotent(wire, topic)
    producer.send(0)
    assert producer.send(1, epoch=1)[0] == OUT_OF_ORDER
    assert producer.send(0, epoch=1) == (0, 1)
    assert producer.send(1, epoch=0)[0] == INVALID_PRODUCER_EPOCH


def test_sequence_numbers_wrap_to_0_after_the_maximum(wire, topic):
    """T27. Also in the middle of a batch."""
    producer = Idempotent(wire, topic)
    assert producer.send(2**31 - 2, b"a", b"b", b"c") == (0, 0)
    assert producer.send(1) == (0, 3)


def test_each_producer_gets_its_own_id(wire, topic):
    """T55. From version 0 on, which librdkafka and aiokafka use."""
    ids = [wire.ask(InitProducerIdRequest(transactional_id=None), version).producer_id for version in range(6)]
    assert len(set(ids)) == 6


@pytest.mark.parametrize("version", [5, 9, 10, 13])
def test_successful_produce_reply_has_log_start_but_no_append_time_and_no_leader_hint(wire, topic, version):
    """T28. Clients use the log start to handle UNKNOWN_PRODUCER_ID, and treat a leader in the reply as a new leader."""
    wire.produce(topic, TWO)
    partitions = [DeleteRecordsPartition(partition_index=0, offset=1)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
    answer = wire.ask(wire.produce_request(topic, ONE, version=version), version)
    (part,) = answer.responses[0].partition_responses
    assert (part.base_offset, part.log_append_time_ms, part.log_start_offset) == (2, -1, 1)
    assert (part.current_leader.leader_id, answer.node_endpoints) == (-1, [])
