"""Appends: which batches are accepted, how they are stored, and the error codes of refused ones."""

from __future__ import annotations

import struct

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import InvariantBroken
from odradek.log.appended import RecordsRefused
from odradek.log.validation import require_keys
from odradek.protocol.batch import checksum, has_valid_checksum, iter_records, read_header
from odradek.protocol.compression import Codec


def refused(partition, batch):
    end = partition.log.log_end_offset
    with pytest.raises(KafkaError) as refusal:
        partition.log.appending.as_leader(batch, 0, partition.wall_ms)
    assert partition.log.log_end_offset == end
    return refusal.value.code


def patched(batch, position, form, value, *, seal=True):
    struct.pack_into(form, batch, position, value)
    if seal:
        struct.pack_into(">I", batch, 17, checksum(batch))
    return batch


def test_consecutive_offsets_are_written_into_the_batch_buffer(partition, make_batch):
    first = partition.append(b"a", b"b", b"c")
    assert (first.base_offset, first.last_offset, first.duplicate, first.append_time_ms) == (0, 2, False, -1)
    sent = make_batch(b"d")
    second = partition.log.appending.as_leader(sent, 5, partition.wall_ms)
    assert (second.base_offset, second.log_start_offset) == (3, 0)
    header = read_header(sent)
    assert (header.base_offset, header.leader_epoch) == (3, 5)
    assert has_valid_checksum(sent)
    assert partition.records() == [(n, value, partition.wall_ms) for n, value in enumerate([b"a", b"b", b"c", b"d"])]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_every_codec_are_stored_unchanged(partition, codec):
    partition.append(b"x" * 100, b"y" * 100, codec=codec)
    assert partition.values() == [b"x" * 100, b"y" * 100]


@pytest.mark.parametrize(
    ("position", "form", "value", "code"),
    [
        (16, ">b", 1, ErrorCode.INVALID_RECORD),
        (8, ">i", 1000, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 50, ErrorCode.INVALID_RECORD),
        (0, ">q", 1, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", 2, ErrorCode.INVALID_RECORD),
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),  # transactional without a producer id
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),
        (21, ">h", 0x40, ErrorCode.INVALID_RECORD),  # a delete horizon, which only compaction sets
        (21, ">h", 0x05, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (43, ">q", 1, ErrorCode.INVALID_RECORD),  # a producer id without a sequence
    ],
)
def test_batch_with_invalid_header_field_is_refused(partition, make_batch, position, form, value, code):
    assert refused(partition, patched(make_batch(b"v"), position, form, value)) == code


def test_two_batches_in_one_append_are_refused(partition, make_batch):
    both = memoryview(bytearray(bytes(make_batch(b"a")) + bytes(make_batch(b"b"))))
    assert refused(partition, both) == ErrorCode.INVALID_RECORD


def test_batch_with_any_flipped_byte_is_refused(partition, make_batch):
    good = bytes(make_batch(b"value"))
    for position in range(len(good)):
        if 12 <= position < 16:
            continue  # the leader epoch: the broker overwrites it without a check
        broken = bytearray(good)
        broken[position] ^= 0x41
        assert refused(partition, memoryview(broken)) != ErrorCode.NONE, position


def test_batch_truncated_at_any_byte_is_refused(partition, make_batch):
    good = bytearray(make_batch(b"value"))
    for length in range(len(good)):
        assert refused(partition, memoryview(good)[:length]) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_max_message_bytes_counts_the_batch_as_stored(make_partition, make_batch):
    size = len(make_batch(b"v" * 50))
    partition = make_partition(max_message_bytes=size)
    partition.append(b"v" * 50)
    assert refused(partition, make_batch(b"v" * 51)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(partition, make_batch(b"v" * 1000)) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(partition, make_batch):
    assert refused(partition, make_batch(b"v" * 1000)) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamps_outside_the_configured_range_are_refused(make_partition, make_batch, now):
    partition = make_partition(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    for good in (now - 1000, now + 500, -1):
        partition.append(b"v", timestamps=[good])
    for bad in (now - 1001, now + 501, 0):
        assert refused(partition, make_batch(b"v", timestamps=[bad])) == ErrorCode.INVALID_TIMESTAMP
    assert refused(partition, make_batch(b"a", b"b", timestamps=[now - 2000, now])) == ErrorCode.INVALID_TIMESTAMP


def test_default_timestamp_limit_is_one_hour_in_the_future(partition, make_batch, now):
    partition.append(b"v", timestamps=[now + 3_600_000])
    assert refused(partition, make_batch(b"v", timestamps=[now + 3_600_001])) == ErrorCode.INVALID_TIMESTAMP


def test_base_timestamp_too_far_in_the_future_is_refused(partition, make_batch, now):
    sent = patched(make_batch(b"v", timestamps=[now]), 27, ">q", 2**63 - 1)
    assert refused(partition, sent) == ErrorCode.INVALID_TIMESTAMP


def test_append_to_a_closed_log_writes_nothing(partition, make_batch, now):
    """Bytes after the recorded end of a clean stop would be read as records after the next append."""
    partition.append(b"v")
    partition.log.write_everything()
    size = partition.log.size_bytes
    with pytest.raises(InvariantBroken, match="sealed"):
        partition.log.appending.as_leader(make_batch(b"w"), 0, now)
    assert partition.log.size_bytes == size


def test_log_append_time_replaces_producer_timestamps(make_partition, make_batch, now):
    partition = make_partition(message_timestamp_type="LogAppendTime")
    sent = make_batch(b"a", b"b", timestamps=[1, 2])
    appended = partition.log.appending.as_leader(sent, 0, now + 5)
    assert appended.append_time_ms == now + 5
    assert has_valid_checksum(sent)
    assert [record.timestamp for record in iter_records(sent)] == [now + 5, now + 5]
    assert partition.log.max_timestamp_offset() == (now + 5, 0, 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_compacted_topic_refuses_records_without_key(make_batch, codec):
    require_keys(make_batch(b"a", key=b"k", codec=codec))
    with pytest.raises(RecordsRefused) as refusal:
        require_keys(make_batch(*[b"a"] * 30, key=None, codec=codec))
    assert refusal.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refusal.value.records] == list(range(limits.record_errors_max))


def test_compacted_topic_refuses_unreadable_records(make_batch):
    with pytest.raises(KafkaError) as refusal:
        require_keys(patched(make_batch(b"abc"), 61, ">B", 0xFF))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_batch_with_too_many_records_is_refused_before_decompression(make_batch):
    many = patched(make_batch(b"abc", key=b"k", codec=Codec.ZSTD), 57, ">i", limits.checked_batch_records_max + 1)
    with pytest.raises(KafkaError, match="records per batch"):
        require_keys(many)


def test_require_keys_ignores_a_broken_batch_that_the_append_refuses(make_batch):
    whole = bytes(make_batch(b"abc", key=None))
    require_keys(whole[:40])
    require_keys(whole[:-1])
    require_keys(whole[:-1] + b"x")


def test_client_checks_do_not_apply_to_batches_of_the_broker(partition, make_batch, now):
    control = patched(make_batch(b"v", timestamps=[now * 2]), 21, ">h", 0x20)
    appended = partition.log.appending.trusted(bytearray(control), 9, now)
    assert appended.base_offset == 0
    assert partition.log.leader_epochs.entries() == [(9, 0)]


def test_truncated_follower_still_knows_the_last_five_batches_of_a_producer(partition, make_batch, now):
    """The producer state restored after the truncation must not include the batch that is being appended."""
    for sequence in range(6):
        partition.append(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
    region = partition.log.read(5, 1000, 6, True)
    last = memoryview(bytearray(region.read()))
    region.release()
    partition.log.truncation.to(5)
    partition.log.appending.as_follower(last, now)
    repeated = partition.append(b"1", producer_id=7, producer_epoch=0, base_sequence=1)
    assert (repeated.duplicate, repeated.base_offset) == (True, 1)


def test_follower_stores_batches_with_the_leaders_offsets(make_partition, partition, make_batch, now):
    partition.append(b"a", b"b", leader_epoch=3)
    partition.append(b"c", leader_epoch=4, producer_id=9, producer_epoch=0, base_sequence=0)
    region = partition.log.read(0, 10_000, 3, True)
    copied = memoryview(bytearray(region.read()))

    follower = make_partition().log
    follower.appending.as_follower(copied[:-1], now)
    assert follower.log_end_offset == 2
    follower.truncation.to(0)
    follower.appending.as_follower(copied, now)
    assert (follower.log_end_offset, follower.leader_epochs.entries()) == (3, [(3, 0), (4, 2)])
    assert list(follower.known_producers(now).by_id) == [9]
    with pytest.raises(KafkaError) as again:
        follower.appending.as_follower(copied, now)
    assert again.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    copied[-1] ^= 1
    follower.truncation.to(0)
    with pytest.raises(KafkaError) as broken:
        follower.appending.as_follower(copied, now)
    assert broken.value.code == ErrorCode.CORRUPT_MESSAGE
