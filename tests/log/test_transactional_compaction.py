"""Compaction of a log with transactions: aborted records, markers, and what producers need."""

from __future__ import annotations

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.log import safeguards
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import TRANSACTIONAL

HOUR_MS = 3600 * 1000
RETENTION_MS = 5 * HOUR_MS
TV2 = 2


@pytest.fixture
def compacted(make_partition):
    return make_partition(
        cleanup_policy=frozenset({"compact"}),
        segment_bytes=1 << 20,
        delete_retention_ms=RETENTION_MS,
        producer_id_expiration_ms=10**12,
    )


class Writer:
    def __init__(self, partition, producer_id, version=0):
        self.partition = partition
        self.producer_id = producer_id
        self.version = version
        self.epoch = self.sequence = 0

    def put(self, *pairs):
        self.partition.put(
            *pairs,
            verification=NOT_REQUIRED,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            attributes=TRANSACTIONAL,
        )
        self.sequence += len(pairs)
        return self

    def end(self, *, committed):
        if self.version == TV2:
            self.epoch, self.sequence = self.epoch + 1, 0
        self.partition.end_transaction(
            committed=committed, producer_id=self.producer_id, epoch=self.epoch, version=self.version
        )


def clean(partition):
    """Compact everything written so far, with the segment that it is in."""
    partition.put((b"end", b"x"))
    partition.roll()
    return partition.clean()


def markers(partition):
    """Offset, number of records and delete horizon of each control batch."""
    return [
        (header.base_offset, len(records), header.delete_horizon_ms)
        for header, records in partition.batches()
        if header.is_control
    ]


def copy_of(partition):
    """A new follower."""
    copy = type(partition)(MemoryDisk(), partition.config)
    copy.wall_ms = partition.wall_ms
    offset = partition.log.log_start_offset
    while (region := partition.log.read(offset, 1, partition.log.log_end_offset, True)) is not None:
        copy.log.appending.as_follower(memoryview(region.read()), partition.wall_ms)
        region.release()
        offset = copy.log.log_end_offset
    return copy


def test_aborted_record_does_not_replace_an_older_record_of_its_key(compacted):
    compacted.put((b"k", b"old"))
    Writer(compacted, 1).put((b"k", b"aborted")).end(committed=False)
    clean(compacted)
    assert (0, b"k", b"old") in compacted.rows()
    assert (1, b"k", b"aborted") not in compacted.rows()


def test_aborted_tombstone_does_not_delete(compacted):
    compacted.put((b"k", b"old"))
    Writer(compacted, 1).put((b"k", None)).end(committed=False)
    clean(compacted)
    compacted.wall_ms += RETENTION_MS
    clean(compacted)
    assert (0, b"k", b"old") in compacted.rows()


def test_marker_stays_for_the_retention_time_after_the_last_record_of_its_transaction(compacted):
    Writer(compacted, 1).put((b"k", b"aborted")).end(committed=False)
    Writer(compacted, 1, TV2).put((b"k", b"next"))  # the producer goes on: its earlier batches are not its last ones
    compacted.end_transaction(committed=True, epoch=1)
    assert clean(compacted)
    assert markers(compacted)[0] == (1, 1, None)
    clean(compacted)
    horizon = compacted.wall_ms + RETENTION_MS
    assert markers(compacted)[0] == (1, 1, horizon)
    assert compacted.transaction_state() == ({}, [])
    compacted.wall_ms = horizon - 1
    clean(compacted)
    assert markers(compacted)[0] == (1, 1, horizon)
    compacted.wall_ms = horizon
    clean(compacted)
    assert markers(compacted)[0][0] != 1


def test_marker_of_a_commit_stays_while_a_record_of_its_transaction_stays(compacted):
    Writer(compacted, 1).put((b"a", b"1"), (b"b", b"1")).end(committed=True)
    for _ in range(3):
        compacted.wall_ms += 2 * RETENTION_MS
        compacted.put((b"a", b"2"))
        clean(compacted)
        assert markers(compacted) == [(2, 1, None)]
    assert compacted.stable == compacted.log.log_end_offset
    assert copy_of(compacted).stable == compacted.log.log_end_offset


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_marker_is_not_used_before_it_is_on_disk(compacted, committed, restarts):
    """A power cut could take it away: the transaction would be open again, without the records that were removed."""
    compacted.put((b"k", b"old"))
    writer = Writer(compacted, 1).put((b"k", b"new"))
    compacted.roll()
    compacted.log.syncing.whole()
    writer.end(committed=committed)
    if restarts:
        compacted.logs.write_checkpoints()
        compacted.crash()
    assert compacted.log.last_stable_offset(3) == 3
    assert compacted.log.compacting.dirt(3, compacted.wall_ms).dirty_bytes == 0
    compacted.log.syncing.whole()
    assert compacted.log.compacting.dirt(3, compacted.wall_ms).dirty_bytes > 0
    compacted.put((b"end", b"x"))  # not on disk, unlike the marker
    assert compacted.log.compacting.dirt(4, compacted.wall_ms).dirty_bytes == 0, "unknown until the next segment"
    compacted.roll()
    compacted.log.syncing.whole()
    assert compacted.log.compacting.dirt(4, compacted.wall_ms).dirty_bytes > 0


def test_older_snapshot_is_used_if_the_newest_is_broken(compacted, caplog):
    compacted.put((b"k", b"old"))
    compacted.roll()
    compacted.put((b"k", b"new"))
    compacted.roll()
    compacted.put((b"k", b"newest"))
    compacted.log.syncing.whole()
    compacted.put((b"k", b"not on disk"))
    compacted.logs.write_checkpoints()
    compacted.crash()
    path = f"orders-0/{2:020d}.snapshot"
    compacted.disk.replace(path, b"broken" + compacted.disk.read(path)[6:])
    for _ in range(2):
        assert compacted.log.compacting.dirt(4, compacted.wall_ms).segments[-1].base_offset == 0
    assert [record.message for record in caplog.records if path in record.message][1:] == [], "logged once"


def test_rule_that_a_marker_is_used_only_from_the_disk_is_noticed(compacted, monkeypatch):
    monkeypatch.setattr(safeguards, "cleans_what_is_decided_on_disk", lambda _decided, stable: stable)
    with pytest.raises(AssertionError):
        test_marker_is_not_used_before_it_is_on_disk(compacted, committed=False, restarts=False)


def test_open_transaction_is_not_compacted(compacted):
    compacted.put((b"k", b"old"))
    compacted.roll()
    writer = Writer(compacted, 1).put((b"k", b"new"))
    clean(compacted)
    assert [row[1:] for row in compacted.rows()] == [(b"k", b"old"), (b"k", b"new"), (b"end", b"x")]
    writer.end(committed=False)
    clean(compacted)
    assert [row[1:] for row in compacted.rows() if row[1] == b"k"] == [(b"k", b"old")]


def test_aborted_records_whose_marker_is_not_cleanable_yet_are_dropped(compacted):
    compacted.put((b"k", b"old"))
    aborting = Writer(compacted, 1).put((b"k", b"aborted"))
    compacted.put((b"o", b"x"))
    compacted.roll()
    blocking = Writer(compacted, 2).put((b"k", b"open"))
    aborting.end(committed=False)
    assert clean(compacted)
    assert [row[1:] for row in compacted.rows()][:2] == [(b"k", b"old"), (b"o", b"x")]
    assert compacted.seen_committed() == [(0, b"old"), (2, b"x")]
    blocking.end(committed=True)
    clean(compacted)
    assert (0, b"k", b"old") not in compacted.rows()


def test_index_of_merged_segments_has_their_aborted_transactions(make_partition):
    partition = make_partition(
        cleanup_policy=frozenset({"compact"}), segment_bytes=4000, producer_id_expiration_ms=10**12
    )
    writer = Writer(partition, 1)
    for n in range(6):
        writer.put((b"%d" % n, b"aborted")).end(committed=False)
        partition.roll()
    writer.put((b"k", b"open"))
    before = partition.transaction_state()
    clean(partition)
    assert partition.log.segment_count < 6
    assert partition.transaction_state() == before
    partition.crash()
    assert partition.transaction_state() == before
    assert partition.seen_committed() == []


@pytest.mark.parametrize("restarts", [False, True])
def test_epoch_of_a_producer_outlives_all_its_records(compacted, restarts):
    """With version 2, only the marker has the epoch that fences the batches of the transaction before."""
    Writer(compacted, 1, TV2).put((b"k", b"v")).end(committed=False)
    if restarts:
        compacted.restart()
    for _ in range(4):
        compacted.wall_ms += 2 * RETENTION_MS
        compacted.put((b"k", b"w"))
        clean(compacted)
    assert markers(compacted) == [(1, 0, None)]
    copy = copy_of(compacted)
    with pytest.raises(KafkaError) as refusal:
        copy.append_in_transaction(b"late", epoch=0, sequence=1)
    assert refusal.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    copy.append_in_transaction(b"next", epoch=1, sequence=0)


def test_batches_of_coordinators_do_not_pile_up(compacted, make_batch):
    """They have no sequence: only the last one of a producer is kept after its records are replaced."""
    for _ in range(5):
        batch = make_batch(b"offset", producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL)
        compacted.log.appending.trusted(bytearray(batch), 0, compacted.wall_ms)
        compacted.commit()
    compacted.put((b"k", b"replaced"))
    for _ in range(4):
        compacted.wall_ms += 2 * RETENTION_MS
        clean(compacted)
    kept = [(header.base_offset, header.is_control) for header, _ in compacted.batches() if header.producer_id == 1]
    assert kept == [(8, False), (9, True)]


def test_emptied_batches_do_not_reopen_their_transaction(compacted):
    Writer(compacted, 1).put((b"k", b"v")).end(committed=True)
    for _ in range(4):
        compacted.wall_ms += 2 * RETENTION_MS
        compacted.put((b"k", b"w"))
        clean(compacted)
    assert [len(records) for header, records in compacted.batches() if header.producer_id == 1] == [0, 1]
    for partition in (compacted, copy_of(compacted)):
        assert partition.stable == compacted.log.log_end_offset
