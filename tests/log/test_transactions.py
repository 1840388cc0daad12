"""Transactions in one log: the last stable offset, markers, the index of aborted transactions, fencing."""

from __future__ import annotations

import errno
from unittest import mock

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.transaction_index import TransactionIndex
from odradek.log.transactions import ABORTED_ENTRY
from odradek.log.verification import OPEN_HERE
from odradek.protocol.batch import TRANSACTIONAL
from odradek.protocol.txn_marker import read_marker

TV2 = 2


def code_of(call, *args, **options):
    with pytest.raises(KafkaError) as refusal:
        call(*args, **options)
    return refusal.value.code


def verify(partition, producer_id=1, epoch=0, sequence=0, *, adds_partition=False):
    return partition.log.known_producers(partition.wall_ms).begin_verification(
        producer_id, epoch, sequence, adds_partition=adds_partition, wall_ms=partition.wall_ms
    )


# --- the last stable offset


def test_last_stable_offset_stays_at_the_first_batch_of_the_oldest_open_transaction(partition):
    partition.append(b"a")
    partition.append_in_transaction(b"b", producer_id=1)
    partition.append_in_transaction(b"c", producer_id=2)
    partition.append_in_transaction(b"d", producer_id=1, sequence=1)
    assert partition.stable == 1
    partition.commit(1)
    assert partition.stable == 2
    partition.append(b"e")
    partition.abort(2)
    assert partition.stable == partition.log.log_end_offset == 7


def test_marker_above_the_high_watermark_does_not_move_the_last_stable_offset(partition):
    partition.append_in_transaction(b"a")
    partition.append(b"b")
    partition.commit()
    assert [partition.log.last_stable_offset(high_watermark) for high_watermark in (0, 1, 2)] == [0, 0, 0]
    assert partition.log.last_stable_offset(3) == 3
    partition.append_in_transaction(b"c", sequence=1)
    assert (partition.log.last_stable_offset(3), partition.log.last_stable_offset(4)) == (3, 3)


def test_last_stable_offset_is_not_below_the_log_start(partition):
    partition.append_in_transaction(b"a")
    partition.append_in_transaction(b"b", sequence=1)
    partition.log.advance_log_start(1)
    assert partition.stable == 1


def test_committed_readers_see_committed_records_and_no_aborted_ones(partition):
    partition.append_in_transaction(b"aborted", producer_id=1)
    partition.append_in_transaction(b"kept", producer_id=2)
    partition.append(b"plain")
    partition.append_in_transaction(b"aborted too", producer_id=1, sequence=1)
    partition.commit(2)
    assert partition.seen_committed() == []
    partition.abort(1)
    partition.append_in_transaction(b"next", producer_id=1, sequence=2)
    assert partition.seen_committed() == [(1, b"kept"), (2, b"plain")]
    partition.commit(1)
    assert partition.seen_committed() == [(1, b"kept"), (2, b"plain"), (6, b"next")]


def test_reader_in_the_middle_of_an_aborted_transaction_learns_of_it(partition):
    partition.append_in_transaction(b"a", b"b")
    partition.append(b"plain")
    partition.append_in_transaction(b"c", sequence=2)
    partition.abort()
    assert [partition.seen_committed(start) for start in range(5)] == [[(2, b"plain")]] * 3 + [[]] * 2


# --- the index


def test_index_entry_names_the_oldest_transaction_still_open(partition):
    partition.append_in_transaction(b"a", producer_id=1)
    partition.append_in_transaction(b"b", producer_id=2)
    partition.abort(2)
    partition.abort(1)
    assert partition.transaction_state() == ({}, [(2, 1, 2, 0), (1, 0, 3, 4)])
    assert partition.names(".txnindex") == ["00000000000000000000.txnindex"]
    assert partition.bytes_of(".txnindex").pread(100, 0).hex() == (
        "0000" "0000000000000002" "0000000000000001" "0000000000000002" "0000000000000000"
        "0000" "0000000000000001" "0000000000000000" "0000000000000003" "0000000000000004"
    )  # fmt: skip


def test_commits_and_markers_without_a_transaction_leave_no_index(partition):
    partition.append_in_transaction(b"a")
    partition.commit()
    partition.abort(producer_id=7)
    assert partition.names(".txnindex") == []
    assert partition.transaction_state() == ({}, [])


def test_fetch_lists_only_aborted_transactions_within_its_records(make_partition):
    partition = make_partition(segment_bytes=400)
    for n in range(40):
        partition.append_in_transaction(b"v", sequence=n)
        partition.abort()
    region, aborted = partition.log.read_committed(0, 1, 80, True)
    region.release()
    assert [one.first_offset for one in aborted] == [0]
    region, aborted = partition.log.read_committed(41, 200, 80, True)
    region.release()
    assert [one.first_offset for one in aborted] == [40, 42]


def test_marker_in_a_later_segment_is_found(make_partition):
    partition = make_partition(segment_bytes=300)
    partition.append_in_transaction(b"aborted", producer_id=1)
    for _ in range(20):
        partition.append(b"v" * 60)
    partition.append_in_transaction(b"open", producer_id=2)
    partition.abort(1)
    assert partition.log.segment_count > 3
    assert [offset for offset, _ in partition.seen_committed(max_bytes=1)] == list(range(1, 21))


@pytest.mark.parametrize("damage", ["cut", "version", "order"])
def test_broken_index_is_built_again(make_partition, damage):
    partition = make_partition(segment_bytes=700)
    for n in range(20):
        partition.append_in_transaction(b"aborted", sequence=n)
        partition.abort()
        partition.append(b"seen")
    before = partition.transaction_state()
    expected = partition.seen_committed()
    partition.restart()
    base = partition.log.segments.in_order[1].base_offset
    index = partition.bytes_of(".txnindex", base)
    if damage == "cut":
        index.truncate(index.size() - 1)
    elif damage == "version":
        index.pwrite(b"\1", 0)
    else:
        first, second = index.pread(34, 0), index.pread(34, 34)
        index.pwrite(second + first, 0)
    index.close()
    assert partition.seen_committed() == expected
    assert partition.transaction_state() == before


def test_truncation_removes_aborted_transactions_with_their_markers(partition):
    partition.append_in_transaction(b"a", producer_id=1)
    partition.abort(1)
    partition.append_in_transaction(b"b", producer_id=1, sequence=1)
    partition.abort(1)
    partition.log.truncation.to(3)
    assert partition.transaction_state() == ({1: 2}, [(1, 0, 1, 2)])
    assert partition.stable == 2
    partition.commit()
    assert partition.seen_committed() == [(2, b"b")]


@pytest.mark.parametrize("damage", ["missing", "of lost batches"])
def test_crash_rebuilds_an_index_that_was_not_synced(partition, damage):
    partition.append_in_transaction(b"a", producer_id=1)
    partition.abort(1)
    partition.append_in_transaction(b"b", producer_id=1, sequence=1)
    before = partition.transaction_state()
    if damage == "missing":
        partition.disk.remove("orders-0/00000000000000000000.txnindex")
    else:
        partition.bytes_of(".txnindex").pwrite(ABORTED_ENTRY.pack(0, 1, 2, 3, 4), ABORTED_ENTRY.size)
    partition.crash()
    assert partition.transaction_state() == before
    assert partition.seen_committed() == []
    partition.commit()
    assert partition.seen_committed() == [(2, b"b")]


@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_state_is_the_same_after_a_restart(make_partition, stop):
    partition = make_partition(segment_bytes=300)
    for n in range(10):
        partition.append_in_transaction(b"v", producer_id=n, epoch=n)
        if n % 3 == 0:
            partition.abort(n, epoch=n, coordinator_epoch=n)
    before = partition.transaction_state(), partition.stable
    getattr(partition, stop)()
    assert partition.stable == before[1]
    assert (partition.transaction_state(), partition.stable) == before
    assert code_of(partition.abort, 0, coordinator_epoch=-1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_after_a_clean_stop_the_last_stable_offset_needs_only_the_snapshot(partition):
    partition.append(b"a")
    partition.append_in_transaction(b"b")
    partition.restart()
    assert partition.stable == 1
    assert partition.log.producers.known is None
    partition.commit()
    assert partition.stable == 3


# --- which batches are refused


def test_batch_outside_of_the_open_transaction_of_its_producer_is_refused(partition):
    partition.append_in_transaction(b"a")
    batch = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 1}
    assert code_of(partition.append, b"b", **batch) == ErrorCode.INVALID_TXN_STATE
    partition.commit()
    partition.append(b"b", **batch)


def test_transactional_batch_of_a_request_without_transactional_id_is_refused(partition):
    refused = code_of(
        partition.append, b"a", producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    assert refused == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_transaction_begins_only_with_a_verification(partition):
    assert code_of(partition.append_in_transaction, b"a", verification=OPEN_HERE) == ErrorCode.INVALID_TXN_STATE
    verification = verify(partition)
    partition.append_in_transaction(b"a", verification=verification)
    assert verify(partition, sequence=1) is OPEN_HERE
    partition.append_in_transaction(b"b", sequence=1, verification=OPEN_HERE)
    partition.commit()
    assert code_of(partition.append_in_transaction, b"c", sequence=2, verification=verification) == (
        ErrorCode.INVALID_TXN_STATE
    )
    assert partition.stable == partition.log.log_end_offset


def test_marker_that_overtakes_the_answer_of_the_coordinator_ends_the_verification(partition):
    """Otherwise the batch of a dead producer would open a transaction that never ends."""
    stale = verify(partition)
    partition.abort()
    assert code_of(partition.append_in_transaction, b"late", verification=stale) == ErrorCode.INVALID_TXN_STATE
    again = verify(partition)
    assert again is not stale
    assert code_of(partition.append_in_transaction, b"late", verification=stale) == ErrorCode.INVALID_TXN_STATE
    partition.append_in_transaction(b"next", verification=again)


def test_verification_of_the_next_epoch_survives_the_marker_of_version_2(partition):
    """The next transaction may begin before the markers of the last one are everywhere."""
    verification = verify(partition, epoch=1, adds_partition=True)
    partition.commit(epoch=1, version=TV2)
    partition.append_in_transaction(b"a", epoch=1, verification=verification)
    assert partition.stable == 1


def test_verification_of_an_older_epoch_is_refused(partition):
    partition.append_in_transaction(b"a", epoch=3)
    assert code_of(verify, partition, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(partition.append_in_transaction, b"b", epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_newer_epoch_does_not_join_the_open_transaction_without_a_verification(partition):
    partition.append_in_transaction(b"a", epoch=0)
    refused = code_of(partition.append_in_transaction, b"b", epoch=1, verification=OPEN_HERE)
    assert refused == ErrorCode.INVALID_TXN_STATE


def test_first_batch_of_version_2_has_sequence_zero(partition):
    verification = verify(partition, sequence=5, adds_partition=True)
    refused = code_of(partition.append_in_transaction, b"a", sequence=5, verification=verification)
    assert refused == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append_in_transaction(b"a", sequence=0, verification=verify(partition, adds_partition=True))


def test_later_batch_does_not_overtake_one_that_waits_for_its_verification(partition):
    verify(partition, sequence=3)
    verification = verify(partition, sequence=4)
    refused = code_of(partition.append_in_transaction, b"b", sequence=4, verification=verification)
    assert refused == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append_in_transaction(b"a", sequence=3, verification=verification)
    partition.append_in_transaction(b"b", sequence=4, verification=OPEN_HERE)


def test_retry_in_a_transaction_gets_its_first_offset_also_after_the_end(partition):
    partition.append_in_transaction(b"a")
    assert partition.append_in_transaction(b"a", verification=OPEN_HERE).duplicate
    partition.commit()
    assert partition.append_in_transaction(b"a", verification=OPEN_HERE).duplicate


def test_forgotten_verifications_expire(partition):
    verify(partition)
    producers = partition.log.known_producers(partition.wall_ms)
    producers.expire(partition.wall_ms + 999, 1000)
    assert producers.verifications
    producers.expire(partition.wall_ms + 1000, 1000)
    assert not producers.verifications


def test_producer_with_an_open_transaction_does_not_expire(partition):
    partition.append_in_transaction(b"a")
    partition.log.known_producers(partition.wall_ms).expire(partition.wall_ms + 10**9, 1)
    assert partition.stable == 0
    partition.commit()
    assert partition.stable == 2


# --- which markers are refused


def test_marker_is_a_control_batch_in_the_format_of_kafka(partition):
    partition.append_in_transaction(b"a", producer_id=5, epoch=3)
    partition.abort(5, epoch=3, coordinator_epoch=9)
    region = partition.log.read(1, 1000, 2, True)
    data = memoryview(region.read())
    region.release()
    # key: version 0, type 0 (abort); value: version 0, coordinator epoch
    assert bytes(data[61:]).hex() == "20" "000000" "08" "00000000" "0c" "000000000009" "00"  # fmt: skip
    ((header, _),) = [found for found in partition.batches() if found[0].is_control]
    assert (header.attributes, header.producer_id, header.producer_epoch, header.base_sequence) == (0x30, 5, 3, -1)
    assert read_marker(header, data) == (5, 3, 9, False, 0)


def test_marker_of_an_older_producer_epoch_is_refused(partition):
    partition.append_in_transaction(b"a", epoch=2)
    assert code_of(partition.commit, epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    partition.commit(epoch=2)


def test_marker_of_version_2_must_be_newer_than_the_open_transaction(partition):
    """A delayed marker of the transaction before this one would end this one."""
    partition.append_in_transaction(b"a", epoch=2)
    assert code_of(partition.abort, epoch=2, version=TV2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.stable == 0
    partition.commit(epoch=3, version=TV2)
    assert partition.stable == 2


def test_retried_marker_of_version_2_is_written_again_and_ends_nothing(partition):
    partition.append_in_transaction(b"a", epoch=2)
    partition.commit(epoch=3, version=TV2)
    assert partition.commit(epoch=3, version=TV2).base_offset == 2
    partition.append_in_transaction(b"b", epoch=3)
    assert code_of(partition.commit, epoch=3, version=TV2) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_marker_with_the_last_epoch_of_a_producer_ends_its_transaction(partition):
    partition.append_in_transaction(b"a", epoch=32767)
    partition.commit(epoch=32767, version=TV2)
    assert partition.stable == 2


def test_marker_of_a_replaced_coordinator_is_refused(partition):
    partition.append_in_transaction(b"a")
    partition.commit(coordinator_epoch=4)
    partition.append_in_transaction(b"b", sequence=1)
    assert code_of(partition.abort, coordinator_epoch=3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    partition.commit(coordinator_epoch=4)


def test_marker_of_a_newer_epoch_fences_the_producer(partition):
    partition.append_in_transaction(b"a")
    partition.abort(epoch=1)
    assert code_of(partition.append_in_transaction, b"b", sequence=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    batch = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 1}
    assert code_of(partition.append, b"b", **batch) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(partition.append_in_transaction, b"b", epoch=1, sequence=1) == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    partition.append_in_transaction(b"b", epoch=1)


def test_refused_batches_and_markers_change_nothing(partition):
    partition.append_in_transaction(b"a", epoch=2)
    before = partition.transaction_state(), partition.log.log_end_offset
    code_of(partition.abort, epoch=1)
    code_of(partition.append_in_transaction, b"b", epoch=2, sequence=7)
    code_of(partition.append_in_transaction, b"b", epoch=3, verification=OPEN_HERE)
    assert (partition.transaction_state(), partition.log.log_end_offset) == before


# --- batches of coordinators


def offsets_batch(make_batch, producer_id=1, epoch=0):
    return bytearray(make_batch(b"offset", producer_id=producer_id, producer_epoch=epoch, attributes=TRANSACTIONAL))


def test_coordinators_write_into_transactions_without_a_sequence(partition, make_batch):
    appending, now = partition.log.appending, partition.wall_ms
    batch = offsets_batch(make_batch)
    assert code_of(appending.trusted, batch, 0, now, OPEN_HERE) == ErrorCode.INVALID_TXN_STATE
    appending.trusted(batch, 0, now, verify(partition))
    appending.trusted(offsets_batch(make_batch), 0, now, OPEN_HERE)
    assert partition.stable == 0
    assert code_of(appending.trusted, offsets_batch(make_batch, epoch=-1), 0, now, OPEN_HERE) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )
    partition.commit()
    assert partition.stable == 3
    partition.crash()
    partition.append_in_transaction(b"a", sequence=0)


def test_last_stable_offset_does_not_pass_an_aborted_transaction_that_the_full_disk_kept_out_of_the_index(partition):
    partition.append_in_transaction(b"a", producer_id=1)
    partition.append_in_transaction(b"b", producer_id=2)

    def is_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch.object(TransactionIndex, "add", is_full):
        assert code_of(partition.abort, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.log_end_offset == 3, "followers may have the marker"
    assert partition.stable == 0, "readers would take its record for committed"
