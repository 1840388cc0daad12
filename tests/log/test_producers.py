"""Idempotent producers: the five-batch window, gaps, epochs, wrapping, expiry, and what a restart remembers."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.producer import SEQUENCE_MAX
from odradek.log.producer_snapshots import SnapshotBroken, decode_producers, encode_producers
from odradek.log.producers import Producers


def write(partition, sequence, *values, epoch=0, producer_id=1):
    return partition.append(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def refused(partition, sequence, *values, epoch=0):
    with pytest.raises(KafkaError) as refusal:
        write(partition, sequence, *values, epoch=epoch)
    return refusal.value.code


def test_retried_batch_gets_its_first_offset(partition):
    write(partition, 0, b"a", b"b")
    first = write(partition, 2, b"c")
    again = write(partition, 2, b"c")
    assert (again.base_offset, again.last_offset, again.duplicate) == (2, 2, True)
    assert not first.duplicate
    assert partition.values() == [b"a", b"b", b"c"]


def test_retry_is_recognized_within_the_last_five_batches(partition):
    for sequence in range(7):
        write(partition, sequence, b"v")
    assert [write(partition, sequence, b"v").base_offset for sequence in range(2, 7)] == [2, 3, 4, 5, 6]
    assert refused(partition, 1, b"v") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.log.log_end_offset == 7


def test_only_the_exact_range_is_a_duplicate(partition):
    write(partition, 0, b"a", b"b")
    assert refused(partition, 0, b"a") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(partition, 1, b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused(partition):
    write(partition, 0, b"a")
    assert refused(partition, 2, b"c") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_unknown_producer_may_begin_with_any_sequence(partition):
    assert write(partition, 1234, b"a").base_offset == 0
    assert write(partition, 1235, b"b").base_offset == 1


def test_new_producer_epoch_begins_at_sequence_zero_and_fences_the_old_epoch(partition):
    write(partition, 0, b"a")
    assert refused(partition, 1, b"b", epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(partition, 0, b"b", epoch=1)
    assert refused(partition, 1, b"c", epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(partition, 0, b"a", epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(partition, 1, b"c", epoch=1).base_offset == 2


def test_sequences_wrap_around_at_the_maximum(partition):
    write(partition, SEQUENCE_MAX - 1, b"a", b"b")
    write(partition, 0, b"c")
    assert write(partition, SEQUENCE_MAX - 1, b"a", b"b").duplicate
    write(partition, 1, b"d")
    partition.append(b"x", b"y", b"z", producer_id=2, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1)
    assert partition.append(b"q", producer_id=2, producer_epoch=0, base_sequence=1).base_offset == 7
    duplicate = partition.append(b"x", b"y", b"z", producer_id=2, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1)
    assert (duplicate.duplicate, duplicate.base_offset) == (True, 4)


def test_refused_batch_does_not_change_the_producer_state(partition, now):
    write(partition, 0, b"a")
    before = encode_producers(partition.log.known_producers(now))
    refused(partition, 5, b"b")
    assert encode_producers(partition.log.known_producers(now)) == before


@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_retries_are_recognized_after_a_restart(partition, stop):
    for sequence in range(7):
        write(partition, sequence, b"v")
    getattr(partition, stop)()
    assert [write(partition, sequence, b"v").base_offset for sequence in range(2, 7)] == [2, 3, 4, 5, 6]
    assert refused(partition, 1, b"v") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(partition, 8, b"v") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(partition, 7, b"v").base_offset == 7


def test_idle_producers_expire(make_partition, now):
    partition = make_partition(producer_id_expiration_ms=1000)
    write(partition, 0, b"a")
    partition.log.expire_producers(now + 999)
    assert refused(partition, 5, b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.log.expire_producers(now + 1000)
    assert write(partition, 5, b"b").base_offset == 1
    partition.restart()
    partition.wall_ms = now + 1000
    partition.log.known_producers(partition.wall_ms)
    assert write(partition, 9, b"c").base_offset == 2


def test_duplicate_is_answered_with_the_append_time_of_the_first(make_partition, now):
    partition = make_partition(message_timestamp_type="LogAppendTime")
    write(partition, 0, b"a")
    partition.wall_ms = now + 77
    assert write(partition, 0, b"a").append_time_ms == now


def crc32c_by_hand(data):
    """Castagnoli's polynomial, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


ONE_PRODUCER = bytes.fromhex(
    "00000001"  # one producer
    "000000000000002a"  # producer id 42
    "0003"  # epoch
    "00000008"  # last sequence
    "0000000000000065"  # last offset 101
    "00000002"  # offset delta: the batch has offsets 99 to 101
    "0000000000000fa0"  # timestamp 4000
    "ffffffff"  # no coordinator epoch
    "ffffffffffffffff"  # no open transaction
)
GOLDEN = b"\0\1" + crc32c_by_hand(ONE_PRODUCER) + ONE_PRODUCER  # version 1, checksum, content


def test_snapshot_format():
    producers = Producers()
    producers.record(42, 3, 6, 101, 2, 4000)
    assert encode_producers(producers) == GOLDEN
    restored = decode_producers(GOLDEN, 50)
    assert encode_producers(restored) == GOLDEN
    assert restored.check(42, 3, 6, 2).first_offset == 99
    assert encode_producers(Producers()) == b"\0\1" + crc32c_by_hand(bytes(4)) + bytes(4)


def test_broken_producer_snapshot_is_detected():
    for position in range(len(GOLDEN)):
        with pytest.raises(SnapshotBroken):
            decode_producers(GOLDEN[:position], 50)
        with pytest.raises(SnapshotBroken):
            decode_producers(GOLDEN[:position] + bytes([GOLDEN[position] ^ 1]) + GOLDEN[position + 1 :], 50)
