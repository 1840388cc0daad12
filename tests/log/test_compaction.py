"""What compaction keeps, and what must outlive the removed records."""

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
    """A new replica that copied this log."""
    copy = type(partition)(type(partition.disk)(), partition.config)
    start, end = partition.log.log_start_offset, partition.log.log_end_offset
    copy.log.truncation.fully_and_start_at(start)
    copy.log.appending.as_follower(memoryview(partition.log.read(start, 1000, end, True).read()), now)
    return copy


def fetched(base_offset, leader_epoch):
    """A batch as the leader sends it."""
    one = bytearray(encode_batch([Record(key=b"k", value=b"%d" % base_offset)]))
    OFFSET_LENGTH_EPOCH.pack_into(one, 0, base_offset, len(one) - LOG_OVERHEAD, leader_epoch)
    return memoryview(one)


def epoch_ends(partition, *epochs):
    return {epoch: partition.log.end_offset_for_epoch(epoch) for epoch in epochs}


def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(compacted):
    compacted.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    compacted.put((b"c", b"1"), (b"b", b"2"))
    compacted.roll()
    compacted.put((b"a", b"3"))
    compacted.roll()
    compacted.put((b"b", b"3"))  # in the active segment: it does not replace the older value yet
    assert compacted.clean()
    assert compacted.rows() == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3"), (6, b"b", b"3")]
    assert compacted.log.cleaned_until == 6
    assert (compacted.log.log_start_offset, compacted.log.log_end_offset) == (0, 7)
    assert compacted.names(".log") == ["00000000000000000000.log", "00000000000000000006.log"]


def test_second_compaction_reads_only_new_records(compacted):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value), (b"b", value))
        compacted.roll()
        assert compacted.clean()
        assert not compacted.clean()
    compacted.put((b"z", b"z"))
    assert compacted.rows() == [(4, b"a", b"3"), (5, b"b", b"3"), (6, b"z", b"z")]
    assert decode_offsets(compacted.disk.read(CLEANED_OFFSETS)) == {compacted.log.topic_partition: 6}


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_batches_keep_their_codec(compacted, codec):
    compacted.put(*[(b"k%d" % (n % 5), b"v" * n) for n in range(100)], codec=codec)
    compacted.roll()
    compacted.clean()
    (header,) = headers(compacted)
    assert (header.codec, header.records_count, header.base_offset, header.last_offset) == (codec, 5, 0, 99)
    assert compacted.rows() == [(n, b"k%d" % (n % 5), b"v" * n) for n in range(95, 100)]


def test_kept_record_keeps_its_headers_and_timestamp(compacted, now):
    compacted.put((b"a", b"1"), (b"b", None), (b"a", b"2"), (b"c", b"3"))
    compacted.roll()
    compacted.clean()
    ((header, records),) = compacted.batches()
    assert header.attributes & DELETE_HORIZON  # so the base timestamp now holds the delete horizon
    assert header.max_timestamp == now + 3
    assert [(record.key, record.timestamp) for record in records] == [(b"b", now + 1), (b"a", now + 2), (b"c", now + 3)]


@pytest.mark.parametrize("value", [b"2", None])
def test_compaction_handles_timestamps_beyond_64_bits(compacted, now, value):
    """The append checks only the timestamps in the header, and a follower checks none."""
    wild = encode_batch([Record(key=b"a", value=b"1"), Record(key=b"b", value=value, timestamp=1)])
    header = read_header(wild)._replace(base_timestamp=2**63 - 1, max_timestamp=now, leader_epoch=0)
    compacted.log.appending.as_follower(memoryview(packed_batch(header, wild[HEADER_BYTES:])), now)
    compacted.put((b"a", b"2"))
    compacted.roll()
    assert compacted.clean()
    assert [row[1] for row in compacted.rows()] == [b"b", b"a"]


def test_compaction_removes_records_without_key(compacted):
    compacted.put((None, b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.clean()
    assert compacted.rows() == [(1, b"a", b"2")]


def test_compaction_distinguishes_long_keys_with_a_common_prefix(compacted):
    keys = [b"x" * 5000 + bytes([n]) for n in range(3)]
    compacted.put(*[(key, b"old") for key in keys])
    compacted.put(*[(key, b"new") for key in keys])
    compacted.roll()
    compacted.clean()
    assert [(key, value) for _, key, value in compacted.rows()] == [(key, b"new") for key in keys]


# --- tombstones


def test_tombstone_is_kept_for_delete_retention_ms_after_the_first_compaction(compacted, now):
    compacted.put((b"a", b"1"), (b"b", b"1"))
    compacted.put((b"a", None))
    compacted.roll()
    compacted.wall_ms = now + 10 * DAY_MS  # no compaction ran for a long time
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


def test_tombstone_expires_by_its_own_batch_and_other_records_of_the_batch_stay(compacted, now):
    """The delete horizon belongs to the batch: a value in the same batch stays when the tombstone is removed."""
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


def test_last_batch_of_a_producer_is_kept_empty(compacted):
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


def test_older_batches_of_a_producer_are_removed(compacted):
    compacted.put((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0)
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.put((b"b", b"1"), producer_id=7, producer_epoch=1, base_sequence=1)
    compacted.clean()
    assert [header.base_offset for header in headers(compacted)] == [1, 2]


@pytest.mark.parametrize("uncommitted", [1, 5])
def test_last_committed_batch_of_a_producer_is_kept_while_later_ones_are_uncommitted(compacted, now, uncommitted):
    """The next leader copied the log after compaction, and without the uncommitted records."""
    for sequence in range(2):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    compacted.put((b"a", b"x"))
    compacted.roll()
    for sequence in range(2, 2 + uncommitted):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    compacted.clean(3)
    compacted.log.truncation.to(3)
    copy = copied(compacted, now)
    assert copy.put((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=1).duplicate
    assert copy.put((b"a", b"2"), producer_id=7, producer_epoch=1, base_sequence=2).base_offset == 3


def test_producer_with_only_uncommitted_remembered_batches_keeps_one_batch(compacted):
    for sequence in range(25):
        compacted.put((b"a", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
        if sequence == 19:
            compacted.put((b"a", b"x"))
            compacted.roll()
    compacted.clean(21)
    assert [(h.base_sequence, h.base_offset) for h in headers(compacted)][:3] == [(19, 19), (-1, 20), (20, 21)]


def test_last_batch_before_the_high_watermark_is_kept_empty(compacted, now):
    """Otherwise the log would end earlier after a crash or on a new follower."""
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


def test_copy_of_a_compacted_log_has_the_start_of_each_leader_epoch(compacted, now):
    """Otherwise, as leader, it would not detect records of a follower that diverged before an epoch without records."""
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
def test_copy_of_a_compacted_log_has_every_leader_epoch(compacted, now, epoch):
    """Otherwise, as leader, it would not detect diverged records of an epoch in between."""
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
def test_copy_of_a_compacted_log_has_the_epoch_of_its_log_start(compacted, now, inside):
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


def test_only_the_first_batch_is_kept_for_the_epoch_of_the_log_start(compacted, monkeypatch):
    """The batch may be in any segment."""
    monkeypatch.setattr(cleaning._Rewriting, "has_room_for", lambda *_: False)
    compacted.put((b"a", b"1"), leader_epoch=4)
    compacted.put((b"a", b"2"), (b"b", b"2"), leader_epoch=4)
    compacted.roll()
    compacted.put((b"a", b"3"), (b"b", b"3"), leader_epoch=4)
    compacted.roll()
    compacted.clean()
    compacted.log.advance_log_start(1)  # in the gap at the end of the first segment
    for value, epoch in ((b"4", 4), (b"5", 4), (b"6", 6)):
        compacted.put((b"a", value), (b"b", value), leader_epoch=epoch)
    compacted.roll()
    compacted.clean()
    assert [(h.base_offset, h.records_count) for h in headers(compacted)] == [(3, 0), (7, 0), (9, 2)]


# --- how far


def test_uncommitted_records_are_not_compacted(compacted):
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.clean(committed=1)
    assert [value for _, _, value in compacted.rows()] == [b"1", b"2"]
    assert compacted.log.cleaned_until == 1
    compacted.log.truncation.to(1)
    assert compacted.rows() == [(0, b"a", b"1")]


def test_unsynced_records_are_not_compacted(compacted):
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    assert compacted.log.compacting.dirt(2, compacted.wall_ms).dirty_bytes == 0
    compacted.log.syncing.whole()
    assert compacted.log.compacting.dirt(2, compacted.wall_ms).dirty_bytes > 0


def test_records_younger_than_min_compaction_lag_are_not_compacted(compacted, now):
    compacted.configure(min_compaction_lag_ms=1000)
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.wall_ms = now + 1000
    assert not compacted.clean()
    compacted.wall_ms = now + 1001
    assert compacted.clean()


def test_records_older_than_max_compaction_lag_are_compacted_at_any_dirty_ratio(compacted, now):
    compacted.configure(max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.log.syncing.whole()
    assert not compacted.log.compacting.dirt(2, now + 5001).is_due(compacted.config)
    assert compacted.log.compacting.dirt(2, now + 5002).is_due(compacted.config)


def test_active_segment_is_rolled_within_max_compaction_lag(compacted, now):
    compacted.configure(max_compaction_lag_ms=5000)
    compacted.put((b"a", b"1"))
    compacted.wall_ms = now + 5001
    compacted.put((b"a", b"2"))
    assert compacted.log.segment_count == 2


def test_compaction_is_due_above_min_cleanable_dirty_ratio(compacted):
    compacted.configure(min_cleanable_dirty_ratio=0.5)
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.clean()
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.log.syncing.whole()
    found = compacted.log.compacting.dirt(2, compacted.wall_ms)
    assert (found.ratio, found.is_due(compacted.config)) == (0.5, False)
    compacted.put((b"a", b"3"))
    compacted.roll()
    compacted.log.syncing.whole()
    assert compacted.log.compacting.dirt(3, compacted.wall_ms).is_due(compacted.config)


def test_log_with_more_keys_than_memory_is_compacted_in_several_runs(compacted):
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


def test_small_segments_are_merged_up_to_segment_bytes(compacted):
    for n in range(30):
        compacted.put((b"k%d" % n, b"v" * 100))
        compacted.roll()
    compacted.configure(segment_bytes=1000)
    compacted.clean()
    assert [name[18:20] for name in compacted.names(".log")] == ["00", "05", "10", "15", "20", "25", "30"]
    assert len(compacted.rows()) == 30
    assert compacted.names(".snapshot") == [name.replace("log", "snapshot") for name in compacted.names(".log")[1:]]


def test_segments_are_not_merged_beyond_the_range_of_relative_offsets(compacted, make_batch):
    far = 2**33
    compacted.log.truncation.fully_and_start_at(5)
    for offset in (5, far):
        batch = make_batch(b"v", key=b"%d" % offset, base_offset=offset, leader_epoch=0)
        compacted.log.appending.as_follower(batch, compacted.wall_ms)
        compacted.roll()
    compacted.crash()
    compacted.clean()
    assert compacted.names(".log") == [f"{base:020d}.log" for base in (5, far, far + 1)]
    assert [offset for offset, _, _ in compacted.rows()] == [5, far]


def test_compacted_data_that_exceeds_one_segment_becomes_two(compacted):
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


def test_unchanged_segment_is_not_rewritten(compacted):
    compacted.put((b"a", b"1"))
    compacted.roll()
    before = compacted.log.segments.in_order[0]
    assert compacted.clean()
    assert compacted.log.segments.in_order[0] is before
    assert compacted.names(".cleaned") == []


# --- reading


def test_read_inside_a_gap_returns_the_next_batch(compacted):
    for n in range(6):
        compacted.put((b"a", b"%d" % n))
        if n in (2, 4):
            compacted.roll()
    compacted.clean()
    assert [offset for offset, _, _ in compacted.rows()] == [4, 5]
    for start in range(5):
        assert [offset for offset, _, _ in compacted.records(start)] == [4, 5]
    region = compacted.log.read(0, 1 << 20, 4, True)
    assert region is None  # everything below 4 was removed


def test_time_search_works_after_compaction(compacted, now):
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


def test_indexes_after_compaction_match_a_log_written_that_way(compacted):
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
def test_recovery_accepts_gaps_fetched_from_a_compacted_leader(make_partition, make_batch, policy):
    """Above the recovery point and with any current policy: the leader may have compacted long ago."""
    follower = make_partition(cleanup_policy=frozenset({policy}))
    for offset in (3, 10, 11, 40):
        sent = make_batch(b"v" * 300, base_offset=offset, leader_epoch=0)
        follower.log.appending.as_follower(sent, follower.wall_ms)
    assert follower.log.recovery_point == 0
    follower.crash()
    assert follower.log.log_end_offset == 41
    assert [offset for offset, _, _ in follower.records(0)] == [3, 10, 11, 40]


def test_recovery_accepts_gaps_after_the_policy_changed_to_delete(compacted):
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
    compacted.log.truncation.to(10)
    compacted.crash()
    assert compacted.rows() == left[:2]


def _compacted_without_a_recovery_point(compacted):
    for n in range(4):
        compacted.put((b"key %d" % n, b"v"))
        compacted.put((b"the same", b"%d" % n))
        compacted.roll()
    compacted.put((b"last", b"v"))
    compacted.configure(segment_bytes=100)  # so that segments are not merged
    compacted.clean()
    compacted.disk.remove(RECOVERY_POINTS)
    compacted.crash()


def test_recovery_accepts_gaps_without_a_recovery_point(compacted):
    _compacted_without_a_recovery_point(compacted)
    for _ in range(2):
        assert [offset for offset, _, _ in compacted.records()] == [0, 2, 4, 6, 7, 8]
        compacted.crash()


def test_records_after_a_truncation_are_dirty_without_a_recovery_point(compacted):
    _compacted_without_a_recovery_point(compacted)
    compacted.log.truncation.to(4)
    assert decode_offsets(compacted.disk.read(CLEANED_OFFSETS)) == {compacted.log.topic_partition: 4}


def test_recovery_detects_a_truncated_segment_in_a_compacted_topic(compacted):
    compacted.put((b"a", b"1"))
    compacted.put((b"b", b"1"))
    compacted.roll()
    compacted.put((b"c", b"1"))
    compacted.bytes_of(".log").truncate(80)
    compacted.crash()
    assert compacted.rows() == [(0, b"a", b"1")]


def test_read_after_the_last_batch_returns_nothing(compacted, make_batch):
    """An older Kafka did not keep the last batch in compaction, so the log may end in a gap."""
    compacted.put((b"a", b"1"))
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.clean(committed=2)
    compacted.log.segments.in_order[0].truncate_to(0)
    assert compacted.log.read(1, 1000, 2, True) is None


# --- together with other operations


def test_cleanup_policy_compact_and_delete(compacted, now):
    compacted.configure(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=DAY_MS)
    compacted.put((b"a", b"1"), (b"b", b"1"))
    compacted.roll()
    compacted.wall_ms = now + DAY_MS
    compacted.put((b"a", b"2"))
    compacted.roll()
    compacted.put((b"c", b"1"))
    compacted.configure(segment_bytes=100)  # so that segments are not merged
    compacted.clean()
    assert compacted.rows() == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    compacted.wall_ms += 1000
    compacted.logs.retire(compacted.log.retention.delete_expired(compacted.wall_ms, 4))
    assert compacted.log.log_start_offset == 2
    assert compacted.rows() == [(2, b"a", b"2"), (3, b"c", b"1")]


def test_gap_before_the_active_segment_is_accepted_after_repeated_crashes(compacted):
    compacted.put((b"a", b"1"))
    compacted.put((None, b"written before the topic was compacted"))
    compacted.roll()
    compacted.put((b"z", b"1"))
    work = compacted.log.syncing.begin_rolled()
    work.run()
    compacted.log.syncing.finish(work)
    plan = compacted.log.compacting.plan(
        compacted.log.compacting.dirt(3, compacted.wall_ms), 3, compacted.wall_ms, 1 << 20
    )
    (replacement,) = finished(cleaning.clean(compacted.disk, plan)).replacements
    compacted.logs.write_checkpoints()
    swap = compacted.log.compacting.begin_swap(plan, replacement)
    while compacted.log.compacting.step_swap():
        swap.sync()
    for _ in range(3):  # before the cleaner checkpoint was written
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


def test_records_after_a_truncation_are_dirty(compacted):
    compacted.put((b"c", b"1"), (b"a", b"1"))
    compacted.put((b"a", b"2"), (b"b", b"2"))
    compacted.roll()
    compacted.clean()
    compacted.log.truncation.to(2)
    assert compacted.log.cleaned_until == 2
    compacted.crash()
    assert compacted.log.cleaned_until == 2


def test_tombstone_after_a_truncation_removes_the_older_value(compacted, now):
    """After an unclean election a log may be truncated below its compacted part. Later records are dirty."""
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"b", b"1"))
    compacted.roll()
    compacted.clean()
    compacted.log.truncation.to(1)
    for pair in ((b"a", None), (b"c", b"1"), (b"d", b"1")):
        compacted.put(pair)
        compacted.roll()
        compacted.clean()
        compacted.wall_ms += 2 * DAY_MS
    assert [key for _, key, _ in compacted.rows()] == [b"c", b"d"]


def test_truncation_inside_a_gap(compacted):
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
    compacted.log.truncation.to(3)
    assert compacted.log.log_end_offset == 3
    assert compacted.put((b"d", b"1")).base_offset == 3
    assert compacted.rows() == [(1, b"b", b"1"), (3, b"d", b"1")]
    compacted.crash()
    assert compacted.rows() == [(1, b"b", b"1"), (3, b"d", b"1")]


@pytest.mark.parametrize("synced", [True, False])
def test_records_after_a_truncation_inside_a_gap_survive_a_crash(compacted, now, synced):
    """The segment rolled there begins after the last remaining batch, not after the removed records."""
    for offset in (0, 5, 10):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    if synced:
        compacted.log.syncing.whole()
    compacted.log.truncation.to(8)
    assert compacted.log.log_end_offset == 8
    compacted.roll()
    for offset in (8, 9):
        compacted.log.appending.as_follower(fetched(offset, 1), now)
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5, 8, 9]
    assert compacted.log.log_end_offset == 10


def test_clean_stop_keeps_the_log_end_when_all_segments_expired_in_a_gap(compacted, now):
    compacted.configure(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    for offset in (0, 5, 10):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    compacted.log.truncation.to(8)
    compacted.log.retention.delete_expired(now + 5000, 8)
    assert compacted.log.size_bytes == 0
    compacted.restart()
    assert compacted.log.log_end_offset == 8


def test_indexes_of_a_segment_that_ends_in_a_gap_are_not_trusted_as_durable(compacted, now):
    for offset in (0, 5, 10):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    compacted.log.syncing.whole()
    compacted.log.truncation.to(8)
    compacted.roll()
    (written,) = decode_offsets(compacted.disk.read(RECOVERY_POINTS)).values()
    assert written == compacted.log.recovery_checkpoint == 5


def test_new_segment_begins_after_a_gap_wider_than_relative_offsets(compacted, now):
    far = 3_000_000_000
    for offset in (0, 5, far):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    compacted.log.truncation.to(far - 100)
    for offset in range(far - 100, far - 97):
        compacted.log.appending.as_follower(fetched(offset, 1), now)
    compacted.crash()
    assert compacted.log.log_end_offset == far - 97
    assert [header.base_offset for header in headers(compacted)][2:] == [far - 100, far - 99, far - 98]


def test_full_disk_at_a_roll_in_a_gap_loses_nothing(compacted, now, monkeypatch):
    for offset in (0, 5, 10):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    compacted.log.syncing.whole()
    compacted.log.truncation.to(8)
    compacted.log.syncing.whole()
    compacted.configure(segment_bytes=100)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(type(compacted.disk), "replace", full)
        with pytest.raises(KafkaError, match="No space"):
            compacted.log.appending.as_follower(fetched(8, 1), now)
    assert compacted.log.offline
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5]
    compacted.log.appending.as_follower(fetched(8, 1), now)
    compacted.crash()
    assert [header.base_offset for header in headers(compacted)] == [0, 5, 8]


def test_second_truncation_inside_the_same_gap(compacted, now):
    for offset in (0, 5, 10):
        compacted.log.appending.as_follower(fetched(offset, 0), now)
    for end_offset in (8, 7, 6):
        compacted.log.truncation.to(end_offset)
        assert compacted.log.log_end_offset == end_offset
    assert [header.base_offset for header in headers(compacted)] == [0, 5]


def test_segment_rolled_during_a_sync_is_synced_next_and_then_compacted(compacted):
    compacted.configure(flush_messages=100)
    compacted.put((b"a", b"1"))
    compacted.put((b"a", b"2"))
    sync = compacted.log.syncing.begin()
    compacted.roll()
    sync.run()
    compacted.log.syncing.finish(sync)
    assert compacted.log.rolling.since_sync
    sync = compacted.log.syncing.begin_rolled()
    sync.run()
    compacted.log.syncing.finish(sync)
    assert not compacted.log.rolling.since_sync
    assert compacted.log.compacting.dirt(2, compacted.wall_ms).dirty_bytes


def test_compaction_result_is_discarded_after_a_truncation(compacted, monkeypatch):
    compacted.put((b"a", b"1"))
    compacted.roll()
    compacted.put((b"a", b"2"))
    compacted.roll()
    put_in_place = type(compacted).put_in_place

    def meanwhile(partition, plan, cleaned):
        partition.log.truncation.to(1)
        return put_in_place(partition, plan, cleaned)

    monkeypatch.setattr(type(compacted), "put_in_place", meanwhile)
    assert not compacted.clean()
    assert compacted.rows() == [(0, b"a", b"1")]
    compacted.crash()
    assert compacted.rows() == [(0, b"a", b"1")]


def test_truncation_during_a_swap_finishes_the_swap_first(compacted, monkeypatch):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value))
        compacted.roll()
    steps = 0

    def put_in_place(partition, plan, cleaned):
        (replacement,) = cleaned.replacements
        swap = partition.log.compacting.begin_swap(plan, replacement)
        for _ in range(steps):
            assert partition.log.compacting.step_swap()
        partition.log.truncation.to(2)
        assert not partition.log.compacting.step_swap()
        return swap

    monkeypatch.setattr(type(compacted), "put_in_place", put_in_place)
    steps = 2
    compacted.clean()
    assert compacted.names(".swap") == []
    assert compacted.rows() == []
    assert compacted.log.log_end_offset == 2


def test_truncation_during_a_swap_renames_nothing_before_the_last_renames_are_durable(compacted, monkeypatch):
    for value in (b"1", b"2", b"3"):
        compacted.put((b"a", value))
        compacted.roll()

    def put_in_place(partition, plan, cleaned):
        (replacement,) = cleaned.replacements
        partition.log.compacting.begin_swap(plan, replacement)
        assert partition.log.compacting.step_swap()
        monkeypatch.setattr(safeguards, "sync_swap", fails)
        with pytest.raises(KafkaError) as refused:
            partition.log.truncation.to(2)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    def fails(*_):
        raise OSError("the disk is failing")

    monkeypatch.setattr(type(compacted), "put_in_place", put_in_place)
    compacted.clean()
    assert (len(compacted.names(".log.swap")), compacted.names(".deleted")) == (1, [])
    assert compacted.log.offline is not None


@pytest.mark.parametrize("step_bytes", [1, 1 << 20])
def test_compaction_steps_count_all_bytes_read_and_written(compacted, now, monkeypatch, step_bytes):
    """Otherwise compaction would exceed its configured rate."""
    for epoch in (3, 4):
        for value in (b"1", b"2"):
            compacted.put((b"a", value), (b"b", value), leader_epoch=epoch)
        compacted.roll()
    compacted.log.advance_log_start(3)
    compacted.log.syncing.whole()
    planned = compacted.log.compacting.plan(compacted.log.compacting.dirt(8, now), 8, now, 1 << 20)
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


def test_compaction_never_rewrites_a_broken_batch(compacted):
    compacted.put((b"a", b"1"), (b"a", b"2"))
    compacted.roll()
    compacted.bytes_of(".log").pwrite(b"!", 70)
    with pytest.raises(MalformedRecords):
        compacted.clean()
    assert compacted.names(".cleaned") == []


def test_reads_of_old_segments_continue_during_a_swap(compacted):
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
        ("is_cleanable", lambda *_: True, test_uncommitted_records_are_not_compacted),
        (
            "keeps_deletion",
            lambda *_: False,
            test_tombstone_is_kept_for_delete_retention_ms_after_the_first_compaction,
        ),
        ("keeps_last_sequence", lambda: False, test_last_batch_of_a_producer_is_kept_empty),
        ("keeps_last_offset", lambda *_: False, test_last_batch_before_the_high_watermark_is_kept_empty),
        ("keeps_epoch_starts", lambda: False, test_copy_of_a_compacted_log_has_the_start_of_each_leader_epoch),
        ("keeps_epoch_ends", lambda: False, test_copy_of_a_compacted_log_has_the_start_of_each_leader_epoch),
        (
            "cleaned_after_truncation",
            lambda cleaned_until, _: cleaned_until,
            test_tombstone_after_a_truncation_removes_the_older_value,
        ),
    ],
)
def test_a_rule_that_is_not_followed_is_noticed(compacted, now, monkeypatch, rule, instead, noticed_by):
    monkeypatch.setattr(safeguards, rule, instead)
    arguments = (compacted, now)[: noticed_by.__code__.co_argcount]
    with pytest.raises((AssertionError, KafkaError)):
        noticed_by(*arguments)
