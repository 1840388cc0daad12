"""Which epoch wrote which offset (KIP-101, KIP-279)."""

from __future__ import annotations

import pytest

from odradek.log.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs():
    return LeaderEpochs([(1, 0), (3, 10), (7, 25)])


def test_the_end_of_an_epoch_is_the_start_of_the_next(epochs):
    assert epochs.end_offset_for(1, 40) == (1, 10)
    assert epochs.end_offset_for(2, 40) == (1, 10)
    assert epochs.end_offset_for(3, 40) == (3, 25)
    assert epochs.end_offset_for(6, 40) == (3, 25)
    assert epochs.end_offset_for(7, 40) == (7, 40)


def test_an_epoch_before_the_first_ends_where_the_first_begins():
    assert LeaderEpochs([(5, 12), (6, 20)]).end_offset_for(2, 40) == (2, 12)


@pytest.mark.parametrize("asked", [-1, 8])
def test_unknown_epochs(epochs, asked):
    assert epochs.end_offset_for(asked, 40) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 0) == (-1, -1)


def test_an_epoch_is_assigned_once(epochs):
    epochs.assign(7, 30)
    assert epochs.entries() == [(1, 0), (3, 10), (7, 25)]
    assert not epochs.changed


def test_new_epoch_entry_removes_contradicting_entries(epochs):
    epochs.assign(9, 10)
    assert epochs.entries() == [(1, 0), (9, 10)]
    epochs.assign(4, 50)
    assert epochs.entries() == [(1, 0), (4, 50)]


def test_epoch_without_records_is_replaced_by_the_next(epochs):
    epochs.assign(8, 30)
    epochs.assign(9, 30)
    assert epochs.entries() == [(1, 0), (3, 10), (7, 25), (9, 30)]


def test_epoch_continues_after_later_epochs_without_records():
    """A replica that led briefly follows again, and its leader has one more record of the epoch before."""
    epochs = LeaderEpochs([(3, 12), (4, 14)])
    epochs.assign(5, 15)
    epochs.assign(6, 15)
    epochs.assign(4, 15)
    assert epochs.entries() == [(3, 12), (4, 14)]
    assert epochs.end_offset_for(3, 16) == (3, 14)


def test_truncation(epochs):
    epochs.truncate_from_end(25)
    assert epochs.entries() == [(1, 0), (3, 10)]
    epochs.truncate_from_start(10)
    assert epochs.entries() == [(3, 10)]
    epochs.truncate_from_start(15)
    assert epochs.entries() == [(3, 15)]
    epochs.truncate_from_start(2)
    assert epochs.entries() == [(3, 15)]
    epochs.truncate_from_end(0)
    assert epochs.entries() == []


def test_the_epoch_of_an_offset(epochs):
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [1, 1, 3, 3, 7, 7]
    assert LeaderEpochs([(5, 12)]).epoch_at(11) == -1


@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_epochs_survive_a_stop(partition, stop):
    for epoch in (0, 0, 2, 5):
        partition.append(b"a", b"b", leader_epoch=epoch)
    partition.log.appending.begin_epoch(6)
    getattr(partition, stop)()
    assert partition.log.leader_epochs.entries() == [(0, 0), (2, 4), (5, 6)]


@pytest.mark.parametrize("content", [None, b"", b"0\n9\n0 0\n", b"\0" * 30])
@pytest.mark.parametrize("stop", ["restart", "crash"])
def test_lost_epoch_checkpoint_is_rebuilt_from_the_batches(partition, stop, content):
    for epoch in (0, 0, 2, 5):
        partition.append(b"a" * 200, b"b" * 200, leader_epoch=epoch)
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    if stop == "restart":
        partition.logs.close(broker_epoch=1)
    partition.disk.remove("orders-0/leader-epoch-checkpoint")
    if content is not None:
        partition.disk.replace("orders-0/leader-epoch-checkpoint", content)
    partition.crash()
    assert partition.logs.stopped_cleanly == (stop == "restart")
    assert partition.log.leader_epochs.entries() == [(0, 0), (2, 4), (5, 6)]


def test_a_truncated_log_forgets_later_epochs(partition):
    for epoch in range(4):
        partition.append(b"a", b"b", leader_epoch=epoch)
    partition.log.truncation.to(4)
    assert partition.log.leader_epochs.entries() == [(0, 0), (1, 2)]
    partition.append(b"c", leader_epoch=9)
    assert partition.log.leader_epochs.entries() == [(0, 0), (1, 2), (9, 4)]
    partition.log.appending.begin_epoch(10)
    partition.log.truncation.to(99)
    assert partition.log.leader_epochs.entries() == [(0, 0), (1, 2), (9, 4)]


@pytest.mark.parametrize("sync", ["done", "under way"])
def test_log_restarted_at_another_offset_has_no_earlier_epochs(partition, make_batch, now, sync):
    """Otherwise, with outdated epochs, as leader it would accept diverged records of a follower."""
    partition.append(b"a", leader_epoch=3)
    partition.append(b"lost", leader_epoch=5)
    work = partition.log.syncing.begin()
    if sync == "done":
        work.run()
        partition.log.syncing.finish(work)
    partition.log.truncation.fully_and_start_at(100)
    for offset, epoch in ((100, 4), (101, 6)):
        partition.log.appending.as_follower(make_batch(b"b", base_offset=offset, leader_epoch=epoch), now)
    if sync == "under way":
        work.run()
    partition.crash()
    assert partition.log.leader_epochs.entries() == [(4, 100), (6, 101)]


def test_restarted_log_has_no_epochs_for_offsets_that_its_leader_compacted(make_partition, make_batch, now):
    partition = make_partition(cleanup_policy=frozenset({"compact"}))
    partition.append(b"lost", leader_epoch=5)
    partition.log.syncing.whole()
    partition.log.truncation.fully_and_start_at(100)
    partition.log.appending.as_follower(make_batch(b"b", base_offset=130, leader_epoch=6), now)
    partition.crash()
    assert partition.log.leader_epochs.entries() == [(6, 130)]
