"""What compaction keeps, and what must outlive what it takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.adapters.memory_disk import MemoryFile
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.steps import Finished, advance
from odradek.log import cleaning, safeguards
from odradek.log.checkpoints import CLEANED_OFFSETS, RECOVERY_POINTS, decode_offsets
from odradek.log.key_offsets import ENTRY_BYTES, KeyOffsets
from odradek.protocol.batch import (
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_OVERHEAD,
    OFFSET_LENGTH_EPOCH,
    encode_batch,
    packed_batch,
    read_header,
)
from odradek.protocol.compression import Codec
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import Record
from support.steps import finished

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def compacted(make_partition):
    return make_partition(cleanup_policy=frozenset({"compact"}), segment_bytes=100_000, delete_retention_ms=DAY_MS)


def headers(partition):
    return [header for header, _ in partition.batches()]


def copied(partition, now):
    """What a new replica has of it."""
    copy = type(partition)(type(partition.disk)(), partition.config)
    start, end = partition.log.log_start_offset, partition.log.log_end_offset
    copy.log.truncate_fully_and_start_at(start)
    copy.log.append_as_follower(memoryview(partition.log.read(start, 1000, end, True).read()), now)
    return copy


def fetched(base_offset, leader_epoch):
    """A batch as the leader sends it."""
    one = bytearray(encode_batch([Record(key=b"k", value=b"%d" % base_offset)]))
    OFFSET_LENGTH_EPOCH.pack_into(one, 0, base_offset, len(one) - LOG_OVERHEAD, leader_epoch)
    return memoryview(one)


def epoch_ends(partition, *epochs):
    return {epoch: partition.log.end_offset_for_epoch(epoch) for epoch in epochs}


def test_the_last_record_of_each_key_stays_where_it_was(compacted):
    compacted.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    compacted.put((b"c", b"1"), (b"b", b"2"))
    compacted.roll()
    compacted.put((b"a", b"3"))
    compacted.roll()
    compacted.put((b"b", b"3"))  # in the active segment: it replaces nothing yet
    assert compacted.clean()
    assert compacted.rows() == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3"), (6, b"b", b"3")]
    assert compacted.log.cleaned_until == 6
    assert (compacted.log.log_start_offset, compacted.log.log_end_offset) == (0, 7)
    assert compacted.names(".log") == ["00000000000000000000.log", "00000000000000000006.log"]


def test_a_second_run_sees_only_what_is_new(compacted):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value), (b"b", value))
        compacted.roll()
        assert compacted.clean()
        assert not compacted.clean()
    compacted.put((b"z", b"z"))
    assert compacted.rows() == [(4, b"a", b"3"), (5, b"b", b"3"), (6, b"z", b"z")]
    assert decode_offsets(compacted.disk.read(CLEANED_OFFSETS)) == {compacted.log.topic_partition: 6}


@pytest.mark.parametrize("codec", list(Codec))
def test_packed_batches_stay_packed(compacted, codec):
    compacted.put(*[(b"k%d" % (n % 5), b"v" * n) for n in range(100)], codec=codec)
    compacted.roll()
    compacted.clean()
    (header,) = headers(compacted)
    assert (header.codec, header.records_count, header.base_offset, header.last_offset) == (codec, 5, 0, 99)
    assert compacted.rows() == [(n, b"k%d" % (n % 5), b"v" * n) for n in range(95, 100)]


def test_a_kept_record_keeps_its_headers_and_its_time(compacted, now):
    compacted.put((b"a", b"1"), (b"b", None), (b"a", b"2"), (b"c", b"3"))
    compacted.roll()
    compacted.clean()
    ((header, records),) = compacted.batches()
    assert header.attributes & DELETE_HORIZON  # so the base timestamp says something else now
    assert header.max_timestamp == now + 3
    assert [(record.key, record.timestamp) for record in records] == [(b"b", now + 1), (b"a", now + 2), (b"c", now + 3)]


@pytest.mark.parametrize("value", [b"2", None])
def test_times_beyond_64_bits_do_not_stop_compaction(compacted, now, value):
    """The append checks the times of the header alone, and a follower none at all."""
    wild = encode_batch([Record(key=b"a", value=b"1"), Record(key=b"b", value=value, timestamp=1)])
    header = read_header(wild)._replace(base_timestamp=2**63 - 1, max_timestamp=now, leader_epoch=0)
    compacted.log.append_as_follower(memoryview(packed_batch(header, wild[HEADER_BYTES:])), now)
    compacted.put((b"a", b"2"))
    compacted.roll()
    assert compacted.clean()
    assert [row[1] for row in compacted.rows()] == [b"b", b"a"]


def test_records_without_a_key_from_an_earlier_policy_go(compacted):
    compacted.put((None, b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.clean()
    assert compacted.rows() == [(1, b"a", b"2")]


def test_long_keys_are_told_apart(compacted):
    keys = [b"x" * 5000 + bytes([n]) for n in range(3)]
    compacted.put(*[(key, b"old") for key in keys])
    compacted.put(*[(key, b"new") for key in keys])
    compacted.roll()
    compacted.clean()
    assert [(key, value) for _, key, value in compacted.rows()] == [(key, b"new") for key in keys]


# --- deletions


def test_a_deletion_is_kept_for_its_time_from_the_first_cleaning_on(compacted, now):
    compacted.put((b"a", b"1"), (b"b", b"1"))
    compacted.put((b"a", None))
    compacted.roll()
    compacted.wall_ms = now + 10 * DAY_MS  # nobody cleaned for long
    compacted.clean()
    assert compacted.rows() == [(1, b"b", b"1"), (2, b"a", None)]
    horizon = now + 11 * DAY_MS
    assert [header.delete_horizon_ms for header in headers(compacted)] == [None, horizon]

    for wall_ms, left in ((horizon - 1, [b"b", b"a"]), (horizon, [b"b"])):
        compacted.wall_ms = wall_ms
        compacted.put((b"other", b"%d" % wall_ms))
        compacted.roll()
        compacted.clean()
        assert [key for _, key, _ in compacted.rows()] == [*left, b"other"]


def test_a_deletion_in_a_batch_of_its_own_time_does_not_wait_for_others(compacted, now):
    """The horizon is the batch's: a value in the same batch stays when the deletion goes."""
    compacted.put((b"a", None), (b"b", b"1"))
    compacted.roll()
    compacted.clean()
    compacted.wall_ms = now + 2 * DAY_MS
    compacted.put((b"c", b"1"))
    compacted.roll()
    compacted.clean()
    assert compacted.rows() == [(1, b"b", b"1"), (2, b"c", b"1")]
    assert headers(compacted)[0].max_timestamp == now + 1


# --- producers


def test_the_last_batch_of_a_producer_stays_empty(compacted):
    for sequence in range(3):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    compacted.put((b"a", b"x"), producer_id=8, producer_epoch=0, base_sequence=0)
    compacted.put((b"a", b"y"))
    compacted.roll()
    compacted.clean()
    assert [(h.producer_id, h.base_sequence, h.base_offset, h.records_count) for h in headers(compacted)] == [
        (7, 2, 2, 0),
        (8, 0, 3, 0),
        (-1, -1, 4, 1),
    ]
    compacted.disk.remove("orders-0/00000000000000000005.snapshot")
    compacted.crash()
    with pytest.raises(KafkaError) as gap:
        compacted.put((b"a", b"z"), producer_id=7, producer_epoch=1, base_sequence=4)
    assert gap.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert compacted.put((b"a", b"2"), producer_id=7, producer_epoch=1, base_sequence=2).duplicate
    assert compacted.put((b"a", b"3"), producer_id=7, producer_epoch=1, base_sequence=3).base_offset == 5


def test_a_producer_that_went_on_does_not_need_its_old_batches(compacted):
    compacted.put((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0)
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.put((b"b", b"1"), producer_id=7, producer_epoch=1, base_sequence=1)
    compacted.clean()
    assert [header.base_offset for header in headers(compacted)] == [1, 2]


@pytest.mark.parametrize("uncommitted", [1, 5])
def test_what_may_be_truncated_does_not_say_which_sequence_comes_next(compacted, now, uncommitted):
    """The next leader copied it after it was compacted, and without what was not committed."""
    for sequence in range(2):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    compacted.put((b"a", b"x"))
    compacted.roll()
    for sequence in range(2, 2 + uncommitted):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    compacted.clean(3)
    compacted.log.truncate_to(3)
    copy = copied(compacted, now)
    assert copy.put((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=1).duplicate
    assert copy.put((b"a", b"2"), producer_id=7, producer_epoch=1, base_sequence=2).base_offset == 3


def test_a_producer_with_all_that_is_remembered_of_it_uncommitted_keeps_one_batch(compacted):
    for sequence in range(25):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
        if sequence == 19:
            compacted.put((b"a", b"x"))
            compacted.roll()
    compacted.clean(21)
    assert [(h.base_sequence, h.base_offset) for h in headers(compacted)][:3] == [(19, 19), (-1, 20), (20, 21)]


def test_the_last_batch_before_the_high_watermark_stays_empty(compacted, now):
    """Or a crash, or a new follower, would end earlier."""
    compacted.put((b"a", None))
    compacted.roll()
    compacted.clean()
    compacted.wall_ms = now + 2 * DAY_MS
    compacted.put((b"b", None))
    compacted.roll()
    compacted.clean()
    compacted.wall_ms = now + 4 * DAY_MS
    compacted.put((b"c", None))
    compacted.roll()
    compacted.clean()
    assert [(h.base_offset, h.records_count) for h in headers(compacted)] == [(2, 1)]
    compacted.wall_ms = now + 6 * DAY_MS
    compacted.log.cleaned_until = 0  # as if a truncation had made it dirty again
    compacted.clean()
    assert [(h.base_offset, h.records_count) for h in headers(compacted)] == [(2, 0)]
    compacted.disk.remove("orders-0/00000000000000000003.log")
    compacted.crash()
    assert compacted.log.log_end_offset == 3


def test_whoever_copies_the_log_knows_where_each_epoch_began(compacted, now):
    """Or it could lead a replica whose last records lost against an epoch of which no record is left."""
    compacted.put((b"a", b"1"))
    for epoch, values in ((1, (b"2", b"3")), (4, (b"4", b"5"))):
        for value in values:
            compacted.put((b"a", value), leader_epoch=epoch)
    compacted.roll()
    compacted.clean()
    assert [(h.base_offset, h.records_count) for h in headers(compacted)] == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1)]
    ends = epoch_ends(compacted, 0, 1, 2, 4)
    assert ends == {0: (0, 1), 1: (1, 3), 2: (1, 3), 4: (4, 5)}
    assert epoch_ends(copied(compacted, now), *ends) == ends


@pytest.mark.parametrize("epoch", [0, 4])
def test_whoever_copies_the_log_knows_of_each_epoch(compacted, now, epoch):
    """Or it could lead a replica whose last records, of an epoch in between, lost against them."""
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value), (b"b", value), leader_epoch=epoch)
    compacted.put((b"a", b"4"), (b"b", b"4"), leader_epoch=6)
    compacted.roll()
    compacted.clean()
    compacted.log.advance_log_start(3)
    ends = epoch_ends(compacted, epoch, 5, 6)
    assert ends == {epoch: (epoch, 6), 5: (epoch, 6), 6: (6, 8)}
    assert epoch_ends(copied(compacted, now), *ends) == ends


@pytest.mark.parametrize("inside", ["a batch", "a gap"])
def test_whoever_copies_the_log_knows_the_epoch_in_which_it_begins(compacted, now, inside):
    compacted.put((b"a", b"1"), leader_epoch=4)
    for value in (b"2", b"3", b"4"):
        compacted.put((b"a", value), (b"b", value), leader_epoch=4)
    if inside == "a gap":
        compacted.roll()
        compacted.clean()
        compacted.put((b"a", b"5"), (b"b", b"5"), leader_epoch=4)
        compacted.put((b"a", b"6"), (b"b", b"6"), leader_epoch=4)
    compacted.put((b"a", b"7"), (b"b", b"7"), leader_epoch=6)
    compacted.roll()
    compacted.log.advance_log_start(2)
    compacted.clean()
    starts = [header.base_offset for header in headers(compacted)]
    assert starts == ([1, 5, 7] if inside == "a batch" else [5, 9, 11])
    assert copied(compacted, now).log.leader_epochs.epochs == [4, 6]


def test_only_the_first_batch_of_the_log_stands_for_the_epoch_in_which_it_begins(compacted, monkeypatch):
    """Whichever segment it is in."""
    monkeypatch.setattr(cleaning._Rewriting, "has_room_for", lambda *_: False)
    compacted.put((b"a", b"1"), leader_epoch=4)
    compacted.put((b"a", b"2"), (b"b", b"2"), leader_epoch=4)
    compacted.roll()
    compacted.put((b"a", b"3"), (b"b", b"3"), leader_epoch=4)
    compacted.roll()
    compacted.clean()
    compacted.log.advance_log_start(1)  # in the gap with which the first segment ends
    for value, epoch in ((b"4", 4), (b"5", 4), (b"6", 6)):
        compacted.put((b"a", value), (b"b", value), leader_epoch=epoch)
    compacted.roll()
    compacted.clean()
    assert [(h.base_offset, h.records_count) for h in headers(compacted)] == [(3, 0), (7, 0), (9, 2)]


# --- how far


def test_nothing_is_compacted_that_is_not_committed(compacted):
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.clean(committed=1)
    assert [value for _, _, value in compacted.rows()] == [b"1", b"2"]
    assert compacted.log.cleaned_until == 1
    compacted.log.truncate_to(1)
    assert compacted.rows() == [(0, b"a", b"1")]


def test_nothing_is_compacted_that_is_not_durable(compacted):
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    assert compacted.log.dirt(2, compacted.wall_ms).dirty_bytes == 0
    compacted.log.sync()
    assert compacted.log.dirt(2, compacted.wall_ms).dirty_bytes > 0


def test_young_records_stay_uncompacted(compacted, now):
    compacted.configure(min_compaction_lag_ms=1000)
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.wall_ms = now + 1000
    assert not compacted.clean()
    compacted.wall_ms = now + 1001
    assert compacted.clean()


def test_old_records_are_compacted_whatever_the_ratio(compacted, now):
    compacted.configure(max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.log.sync()
    assert not compacted.log.dirt(2, now + 5001).is_due(compacted.config)
    assert compacted.log.dirt(2, now + 5002).is_due(compacted.config)


def test_records_that_must_be_compacted_soon_leave_the_active_segment_in_time(compacted, now):
    compacted.configure(max_compaction_lag_ms=5000)
    compacted.put((b"a", b"1"))
    compacted.wall_ms = now + 5001
    compacted.put((b"a", b"2"))
    assert compacted.log.segment_count == 2


def test_a_log_is_due_when_its_dirty_part_is_larger_than_the_ratio(compacted):
    compacted.configure(min_cleanable_dirty_ratio=0.5)
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.clean()
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.log.sync()
    found = compacted.log.dirt(2, compacted.wall_ms)
    assert (found.ratio, found.is_due(compacted.config)) == (0.5, False)
    compacted.put((b"a", b"3"))
    compacted.roll()
    compacted.log.sync()
    assert compacted.log.dirt(3, compacted.wall_ms).is_due(compacted.config)


def test_more_keys_than_memory_are_compacted_piece_by_piece(compacted):
    for value in (b"1", b"2"):
        for n in range(20):
            compacted.put((b"%02d" % n, value))
    compacted.roll()
    rounds = 0
    while compacted.clean(key_bytes_max=7 * ENTRY_BYTES):
        rounds += 1
    assert rounds == 6
    assert compacted.rows() == [(20 + n, b"%02d" % n, b"2") for n in range(20)]


def test_a_batch_with_more_keys_than_memory_does_not_stop_compaction():
    keys = KeyOffsets(1)
    assert not keys.full
    for n in range(10):
        keys.note(b"%d" % n, n)
    assert keys.full
    assert keys.latest(b"9") == 9


# --- segments


def test_small_segments_become_one_of_at_most_the_size_of_one(compacted):
    for n in range(30):
        compacted.put((b"k%d" % n, b"v" * 100))
        compacted.roll()
    compacted.configure(segment_bytes=1000)
    compacted.clean()
    assert [name[18:20] for name in compacted.names(".log")] == ["00", "05", "10", "15", "20", "25", "30"]
    assert len(compacted.rows()) == 30
    assert compacted.names(".snapshot") == [name.replace("log", "snapshot") for name in compacted.names(".log")[1:]]


def test_offsets_too_far_apart_for_one_index_stay_in_two_segments(compacted, make_batch):
    far = 2**33
    compacted.log.truncate_fully_and_start_at(5)
    for offset in (5, far):
        batch = make_batch(b"v", key=b"%d" % offset, base_offset=offset, leader_epoch=0)
        compacted.log.append_as_follower(batch, compacted.wall_ms)
        compacted.roll()
    compacted.crash()
    compacted.clean()
    assert compacted.names(".log") == [f"{base:020d}.log" for base in (5, far, far + 1)]
    assert [offset for offset, _, _ in compacted.rows()] == [5, far]


def test_what_does_not_fit_into_one_segment_after_all_becomes_two(compacted):
    for n in range(10):
        compacted.put((b"k%d" % n, b"v" * 100))
    compacted.roll()
    compacted.put((b"k0", b"new"))
    compacted.roll()
    compacted.clean(position_max=600)
    assert compacted.names(".log") == [f"{base:020d}.log" for base in (0, 4, 7, 11)]
    assert [offset for offset, _, _ in compacted.rows()] == list(range(1, 11))
    compacted.crash()
    assert [offset for offset, _, _ in compacted.rows()] == list(range(1, 11))


def test_a_segment_without_a_change_is_left_alone(compacted):
    compacted.put((b"a", b"1"))
    compacted.roll()
    before = compacted.log._segments.in_order[0]
    assert compacted.clean()
    assert compacted.log._segments.in_order[0] is before
    assert compacted.names(".cleaned") == []


# --- reading


def test_a_read_inside_a_gap_gives_what_comes_next(compacted):
    for n in range(6):
        compacted.put((b"a", b"%d" % n))
        if n in (2, 4):
            compacted.roll()
    compacted.clean()
    assert [offset for offset, _, _ in compacted.rows()] == [4, 5]
    for start in range(5):
        assert [offset for offset, _, _ in compacted.records(start)] == [4, 5]
    region = compacted.log.read(0, 1 << 20, 4, True)
    assert region is None  # everything below 4 is gone


def test_times_are_found_in_what_is_left(compacted, now):
    for n in range(10):
        compacted.wall_ms = now + 1000 * n
        compacted.put((b"k%d" % (n % 3), b"v" * 150))
    compacted.roll()
    compacted.clean()
    assert [offset for offset, _, _ in compacted.rows()] == [7, 8, 9]
    for wanted, offset in ((0, 7), (now + 7000, 7), (now + 7001, 8), (now + 9000, 9)):
        assert compacted.log.offset_for_timestamp(wanted, 10).offset == offset
    assert compacted.log.offset_for_timestamp(now + 9001, 10) is None
    assert compacted.log.max_timestamp_offset()[:2] == (now + 9000, 9)


def test_indexes_are_those_of_a_log_that_was_always_so(compacted):
    for n in range(60):
        compacted.put((b"k%d" % (n % 40), b"v" * 100))
    compacted.roll()
    compacted.clean()
    before = [compacted.disk.read(f"orders-0/{0:020d}{kind}") for kind in (".index", ".timeindex")]
    for kind in (".index", ".timeindex"):
        compacted.disk.remove(f"orders-0/{0:020d}{kind}")
    compacted.restart()
    assert [offset for offset, _, _ in compacted.records(25)] == list(range(25, 60))
    assert [compacted.disk.read(f"orders-0/{0:020d}{kind}") for kind in (".index", ".timeindex")] == before


# --- after a crash


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_what_a_follower_got_from_a_compacted_leader_is_not_taken_for_loss(make_partition, make_batch, policy):
    """Above the recovery point, and whatever the policy is now: the leader may have compacted long ago."""
    follower = make_partition(cleanup_policy=frozenset({policy}))
    for offset in (3, 10, 11, 40):
        sent = make_batch(b"v" * 300, base_offset=offset, leader_epoch=0)
        follower.log.append_as_follower(sent, follower.wall_ms)
    assert follower.log.recovery_point == 0
    follower.crash()
    assert follower.log.log_end_offset == 41
    assert [offset for offset, _, _ in follower.records(0)] == [3, 10, 11, 40]


def test_what_was_compacted_is_not_taken_for_loss_under_another_policy(compacted):
    for n in range(12):
        compacted.put((b"%d" % (n % 4), b"v" * 100))
        compacted.roll()
    compacted.put((b"last", b"v"))
    compacted.configure(segment_bytes=300)
    compacted.clean()
    left = compacted.rows()
    assert [offset for offset, _, _ in left] == [8, 9, 10, 11, 12]
    compacted.configure(cleanup_policy=frozenset({"delete"}))
    compacted.crash()
    assert compacted.rows() == left
    compacted.log.truncate_to(10)
    compacted.crash()
    assert compacted.rows() == left[:2]


def _compacted_without_a_recovery_point(compacted):
    for n in range(4):
        compacted.put((b"key %d" % n, b"v"))
        compacted.put((b"the same", b"%d" % n))
        compacted.roll()
    compacted.put((b"last", b"v"))
    compacted.configure(segment_bytes=100)  # each stays a segment of its own
    compacted.clean()
    compacted.disk.remove(RECOVERY_POINTS)
    compacted.crash()


def test_what_was_compacted_is_not_taken_for_loss_without_a_recovery_point(compacted):
    _compacted_without_a_recovery_point(compacted)
    for _ in range(2):
        assert [offset for offset, _, _ in compacted.records()] == [0, 2, 4, 6, 7, 8]
        compacted.crash()


def test_without_a_recovery_point_a_truncation_makes_dirty_what_comes_after_it(compacted):
    _compacted_without_a_recovery_point(compacted)
    compacted.log.truncate_to(4)
    assert decode_offsets(compacted.disk.read(CLEANED_OFFSETS)) == {compacted.log.topic_partition: 4}


def test_a_segment_that_lost_its_end_is_loss_in_a_compacted_topic_too(compacted):
    compacted.put((b"a", b"1"))
    compacted.put((b"b", b"1"))
    compacted.roll()
    compacted.put((b"c", b"1"))
    compacted.bytes_of(".log").truncate(80)
    compacted.crash()
    assert compacted.rows() == [(0, b"a", b"1")]


def test_a_read_behind_the_last_batch_waits(compacted, make_batch):
    """Of an older Kafka: its cleaner did not keep the batch that says where the log ends."""
    compacted.put((b"a", b"1"))
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.clean(committed=2)
    compacted.log._segments.in_order[0].truncate_to(0)
    assert compacted.log.read(1, 1000, 2, True) is None


# --- beside it


def test_compact_and_delete(compacted, now):
    compacted.configure(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=DAY_MS)
    compacted.put((b"a", b"1"), (b"b", b"1"))
    compacted.roll()
    compacted.wall_ms = now + DAY_MS
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.put((b"c", b"1"))
    compacted.configure(segment_bytes=100)  # so that they stay apart
    compacted.clean()
    assert compacted.rows() == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    compacted.wall_ms += 1000
    compacted.logs.retire(compacted.log.delete_expired(compacted.wall_ms, 4))
    assert compacted.log.log_start_offset == 2
    assert compacted.rows() == [(2, b"a", b"2"), (3, b"c", b"1")]


def test_a_gap_before_the_active_segment_is_forgiven_crash_after_crash(compacted):
    compacted.put((b"a", b"1"))
    compacted.put((None, b"written before the topic was compacted"))
    compacted.roll()
    compacted.put((b"z", b"1"))
    work = compacted.log.begin_sync_of_rolled()
    work.run()
    compacted.log.finish_sync(work)
    plan = compacted.log.plan_cleaning(compacted.log.dirt(3, compacted.wall_ms), 3, compacted.wall_ms, 1 << 20)
    (replacement,) = finished(cleaning.clean(compacted.disk, plan)).replacements
    compacted.logs.write_checkpoints()
    swap = compacted.log.begin_swap(plan, replacement)
    while compacted.log.step_swap():
        swap.sync()
    for _ in range(3):  # before it was written down how far it is compacted
        compacted.crash()
        assert compacted.rows() == [(0, b"a", b"1"), (2, b"z", b"1")]
        compacted.logs.write_checkpoints()


def test_compaction_does_not_move_the_log_start(compacted):
    compacted.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    compacted.put((b"a", b"2"), (b"b", b"2"), (b"c", b"2"))
    compacted.roll()
    compacted.log.advance_log_start(2)
    compacted.clean()
    assert compacted.log.log_start_offset == 2
    compacted.crash()
    assert compacted.log.log_start_offset == 2
    assert compacted.rows() == [(3, b"a", b"2"), (4, b"b", b"2"), (5, b"c", b"2")]


def test_a_truncation_makes_dirty_what_comes_after_it(compacted):
    compacted.put((b"c", b"1"), (b"a", b"1"))
    compacted.put((b"a", b"2"), (b"b", b"2"))
    compacted.roll()
    compacted.clean()
    compacted.log.truncate_to(2)
    assert compacted.log.cleaned_until == 2
    compacted.crash()
    assert compacted.log.cleaned_until == 2


def test_a_deletion_after_a_truncation_finds_what_it_deletes(compacted, now):
    """A log that was cut below what was compacted: an unclean election. What comes then is dirty."""
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"b", b"1"))
    compacted.roll()
    compacted.clean()
    compacted.log.truncate_to(1)
    for pair in ((b"a", None), (b"c", b"1"), (b"d", b"1")):
        compacted.put(pair)
        compacted.roll()
        compacted.clean()
        compacted.wall_ms += 2 * DAY_MS
    assert [key for _, key, _ in compacted.rows()] == [b"c", b"d"]


def test_a_truncation_into_a_gap(compacted):
    compacted.put((b"a", b"1"), (b"b", b"1"))
    compacted.roll()
    compacted.put((b"c", b"1"))
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.put((b"a", b"3"), (b"c", b"3"))
    compacted.roll()
    compacted.configure(segment_bytes=100)
    compacted.clean()
    assert [offset for offset, _, _ in compacted.rows()] == [1, 4, 5]
    compacted.log.truncate_to(3)
    assert compacted.log.log_end_offset == 3
    assert compacted.put((b"d", b"1")).base_offset == 3
    assert compacted.rows() == [(1, b"b", b"1"), (3, b"d", b"1")]
    compacted.crash()
    assert compacted.rows() == [(1, b"b", b"1"), (3, b"d", b"1")]


@pytest.mark.parametrize("synced", [True, False])
def test_what_follows_a_truncation_into_a_gap_survives_a_crash(compacted, now, synced):
    """The segment that is rolled there follows on the last batch that is left, not on what nobody has any more."""
    for offset in (0, 5, 10):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    if synced:
        compacted.log.sync()
    compacted.log.truncate_to(8)
    assert compacted.log.log_end_offset == 8
    compacted.roll()
    for offset in (8, 9):
        compacted.log.append_as_follower(fetched(offset, 1), now)
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5, 8, 9]
    assert compacted.log.log_end_offset == 10


def test_a_clean_stop_after_all_expired_in_a_gap_keeps_the_end(compacted, now):
    compacted.configure(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    for offset in (0, 5, 10):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    compacted.log.truncate_to(8)
    compacted.log.delete_expired(now + 5000, 8)
    assert compacted.log.size_bytes == 0
    compacted.restart()
    assert compacted.log.log_end_offset == 8


def test_indexes_of_a_segment_that_ends_in_a_gap_are_not_taken_for_durable(compacted, now):
    for offset in (0, 5, 10):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    compacted.log.sync()
    compacted.log.truncate_to(8)
    compacted.roll()
    (written,) = decode_offsets(compacted.disk.read(RECOVERY_POINTS)).values()
    assert written == compacted.log.recovery_checkpoint == 5


def test_no_segment_reaches_over_a_gap_as_wide_as_that(compacted, now):
    far = 3_000_000_000
    for offset in (0, 5, far):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    compacted.log.truncate_to(far - 100)
    for offset in range(far - 100, far - 97):
        compacted.log.append_as_follower(fetched(offset, 1), now)
    compacted.crash()
    assert compacted.log.log_end_offset == far - 97
    assert [header.base_offset for header in headers(compacted)][2:] == [far - 100, far - 99, far - 98]


def test_a_full_disk_at_a_roll_in_a_gap_costs_nothing(compacted, now, monkeypatch):
    for offset in (0, 5, 10):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    compacted.log.sync()
    compacted.log.truncate_to(8)
    compacted.log.sync()
    compacted.configure(segment_bytes=100)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(type(compacted.disk), "replace", full)
        with pytest.raises(KafkaError, match="No space"):
            compacted.log.append_as_follower(fetched(8, 1), now)
    assert compacted.log.offline
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5]
    compacted.log.append_as_follower(fetched(8, 1), now)
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5, 8]


def test_a_second_truncation_into_the_same_gap(compacted, now):
    for offset in (0, 5, 10):
        compacted.log.append_as_follower(fetched(offset, 0), now)
    for end_offset in (8, 7, 6):
        compacted.log.truncate_to(end_offset)
        assert compacted.log.log_end_offset == end_offset
    assert [header.base_offset for header in headers(compacted)] == [0, 5]


def test_a_segment_rolled_during_a_sync_is_synced_and_compacted_soon(compacted):
    compacted.configure(flush_messages=100)
    compacted.put((b"a", b"1"))
    compacted.put((b"a", b"2"))
    sync = compacted.log.begin_sync()
    compacted.roll()
    sync.run()
    compacted.log.finish_sync(sync)
    assert compacted.log.rolled_since_sync
    sync = compacted.log.begin_sync_of_rolled()
    sync.run()
    compacted.log.finish_sync(sync)
    assert not compacted.log.rolled_since_sync
    assert compacted.log.dirt(2, compacted.wall_ms).dirty_bytes


def test_a_result_is_of_no_use_after_a_truncation(compacted, monkeypatch):
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"a", b"2"))
    compacted.roll()
    put_in_place = type(compacted).put_in_place

    def meanwhile(partition, plan, cleaned):
        partition.log.truncate_to(1)
        return put_in_place(partition, plan, cleaned)

    monkeypatch.setattr(type(compacted), "put_in_place", meanwhile)
    assert not compacted.clean()
    assert compacted.rows() == [(0, b"a", b"1")]
    compacted.crash()
    assert compacted.rows() == [(0, b"a", b"1")]


def test_a_truncation_in_the_middle_of_a_swap_waits_for_its_end(compacted, monkeypatch):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value))
        compacted.roll()
    steps = 0

    def put_in_place(partition, plan, cleaned):
        (replacement,) = cleaned.replacements
        swap = partition.log.begin_swap(plan, replacement)
        for _ in range(steps):
            assert partition.log.step_swap()
        partition.log.truncate_to(2)
        assert not partition.log.step_swap()
        return swap

    monkeypatch.setattr(type(compacted), "put_in_place", put_in_place)
    steps = 2
    compacted.clean()
    assert compacted.names(".swap") == []
    assert compacted.rows() == []
    assert compacted.log.log_end_offset == 2


def test_a_truncation_in_the_middle_of_a_swap_changes_no_names_before_the_last_ones_are_durable(compacted, monkeypatch):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value))
        compacted.roll()

    def put_in_place(partition, plan, cleaned):
        (replacement,) = cleaned.replacements
        partition.log.begin_swap(plan, replacement)
        assert partition.log.step_swap()
        monkeypatch.setattr(safeguards, "sync_swap", fails)
        with pytest.raises(KafkaError) as refused:
            partition.log.truncate_to(2)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    def fails(*_):
        raise OSError("the disk is failing")

    monkeypatch.setattr(type(compacted), "put_in_place", put_in_place)
    compacted.clean()
    assert (len(compacted.names(".log.swap")), compacted.names(".deleted")) == (1, [])
    assert compacted.log.offline is not None


@pytest.mark.parametrize("step_bytes", [1, 1 << 20])
def test_all_that_is_read_and_written_counts(compacted, now, monkeypatch, step_bytes):
    """Otherwise a run is faster than it may be."""
    for epoch in (3, 4):
        for value in (b"1", b"2"):
            compacted.put((b"a", value), (b"b", value), leader_epoch=epoch)
        compacted.roll()
    compacted.log.advance_log_start(3)
    compacted.log.sync()
    planned = compacted.log.plan_cleaning(compacted.log.dirt(8, now), 8, now, 1 << 20)
    read = []
    pread = MemoryFile.pread

    def noted(file, length, position):
        read.append(len(found := pread(file, length, position)))
        return found

    monkeypatch.setattr(MemoryFile, "pread", noted)
    steps = cleaning.clean(compacted.disk, replace(planned, step_bytes=step_bytes))
    counted = []
    while not isinstance(step := advance(steps), Finished):
        counted.append(step)
    (replacement,) = step.result.replacements
    written = sum(segment.size for segment in replacement.new)
    assert sum(counted) + step.result.last_step_bytes == sum(read) + written


def test_a_broken_batch_is_never_written_anew(compacted):
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.bytes_of(".log").pwrite(b"!", 70)
    with pytest.raises(MalformedRecords):
        compacted.clean()
    assert compacted.names(".cleaned") == []


def test_readers_of_old_segments_are_not_disturbed(compacted):
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    region = compacted.log.read(0, 1000, 2, True)
    before = region.read()
    compacted.clean()
    assert region.read() == before
    region.release()


@pytest.mark.parametrize(
    ("rule", "instead", "noticed_by"),
    [
        ("is_cleanable", lambda *_: True, test_nothing_is_compacted_that_is_not_committed),
        (
            "keeps_deletion",
            lambda *_: False,
            test_a_deletion_is_kept_for_its_time_from_the_first_cleaning_on,
        ),
        ("keeps_last_sequence", lambda: False, test_the_last_batch_of_a_producer_stays_empty),
        ("keeps_last_offset", lambda *_: False, test_the_last_batch_before_the_high_watermark_stays_empty),
        ("keeps_epoch_starts", lambda: False, test_whoever_copies_the_log_knows_where_each_epoch_began),
        ("keeps_epoch_ends", lambda: False, test_whoever_copies_the_log_knows_where_each_epoch_began),
        (
            "cleaned_after_truncation",
            lambda cleaned_until, _: cleaned_until,
            test_a_deletion_after_a_truncation_finds_what_it_deletes,
        ),
    ],
)
def test_a_rule_that_is_not_followed_is_noticed(compacted, now, monkeypatch, rule, instead, noticed_by):
    monkeypatch.setattr(safeguards, rule, instead)
    arguments = (compacted, now)[: noticed_by.__code__.co_argcount]
    with pytest.raises((AssertionError, KafkaError)):
        noticed_by(*arguments)
