"""Transactions across replicas: what read_committed sees at a leader and a follower, and who is woken when."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.verification import NOT_REQUIRED, OPEN_HERE
from odradek.protocol.batch import TRANSACTIONAL
from odradek.protocol.txn_marker import TxnMarker
from odradek.replication.isolation import FetchIsolation
from support.data_broker import batch
from support.read_committed import visible_records
from support.replicas import EVERYTHING, WALL_MS, Replicas

COMMITTED, UNCOMMITTED = FetchIsolation.TXN_COMMITTED, FetchIsolation.HIGH_WATERMARK


class Reader:
    def __init__(self):
        self.woken = 0

    def may_read_more(self, _partition):
        self.woken += 1


def write(node, *values, producer_id=1, sequence=0, epoch=0, verification=NOT_REQUIRED):
    sent = batch(
        *values,
        timestamp=WALL_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
    )
    return node.partition.append(memoryview(sent), 1, WALL_MS, verification)


def end(node, *, committed, producer_id=1, epoch=0):
    return node.partition.append_marker(TxnMarker(producer_id, epoch, 0, committed), WALL_MS)


def seen(node, isolation=COMMITTED, **options):
    """Values, and the end that the reader learns."""
    read = node.partition.read(0, EVERYTHING, -1, isolation, whole_first_batch=True, **options)
    assert read.error_code == ErrorCode.NONE
    if read.records is None:
        return [], read.last_stable_offset
    data = read.records.read()
    read.records.release()
    aborted = read.aborted_transactions
    values = [record.value.decode() for record in visible_records(data, aborted or ()) if record.value]
    return values, read.last_stable_offset


def refused(call, *args, **options):
    with pytest.raises(KafkaError) as refusal:
        call(*args, **options)
    return refusal.value.code


def test_reader_sees_records_up_to_the_last_stable_offset():
    replicas = Replicas(1)
    leader = replicas[1]
    leader.append("plain")
    write(leader, "undecided")
    leader.append("later")
    assert seen(leader) == (["plain"], 1)
    assert seen(leader, UNCOMMITTED) == (["plain", "undecided", "later"], 1)
    end(leader, committed=False)
    assert seen(leader) == (["plain", "later"], 4)


def test_only_read_committed_gets_a_list_of_aborted_transactions():
    leader = Replicas(1)[1]
    write(leader, "a")
    end(leader, committed=False)
    leader.append("b")
    for isolation, listed in ((COMMITTED, [(1, 0)]), (UNCOMMITTED, None), (FetchIsolation.LOG_END, None)):
        read = leader.partition.read(0, EVERYTHING, -1, isolation, whole_first_batch=True)
        read.records.release()
        assert read.aborted_transactions == listed
    nothing = leader.partition.read(3, EVERYTHING, -1, COMMITTED, whole_first_batch=True)
    assert (nothing.records, nothing.aborted_transactions) == (None, [])


def test_transaction_is_decided_when_every_in_sync_replica_has_the_marker():
    replicas = Replicas(2)
    leader = replicas[1]
    write(leader, "a")
    replicas.catch_up(2)
    replicas.catch_up(2)
    end(leader, committed=True)
    assert (leader.high_watermark, leader.partition.last_stable_offset) == (1, 0)
    replicas.catch_up(2)
    replicas.catch_up(2)
    assert (leader.high_watermark, leader.partition.last_stable_offset) == (2, 2)
    assert replicas[2].partition.last_stable_offset == replicas[2].high_watermark == 2


def test_follower_serves_read_committed_readers():
    replicas = Replicas(2)
    leader, follower = replicas[1], replicas[2]
    write(leader, "aborted", producer_id=1)
    write(leader, "open", producer_id=2)
    end(leader, committed=False, producer_id=1)
    leader.append("later")
    for _ in range(3):
        replicas.catch_up(2)
    assert follower.high_watermark == 4
    assert seen(follower, from_follower=True) == ([], 1)
    end(leader, committed=True, producer_id=2)
    for _ in range(2):
        replicas.catch_up(2)
    assert seen(follower, from_follower=True) == (["open", "later"], 5)


def test_new_leader_knows_open_transactions_and_fences():
    replicas = Replicas(2)
    write(replicas[1], "a", epoch=3)
    for _ in range(2):
        replicas.catch_up(2)
    replicas.elect(2, isr=(2,))
    leader = replicas[2]
    assert leader.partition.last_stable_offset == 0
    assert refused(write, leader, "b", epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    write(leader, "b", sequence=1, epoch=3, verification=OPEN_HERE)
    end(leader, committed=True, epoch=3)
    assert seen(leader) == (["a", "b"], 3)


def test_reopened_transaction_after_a_truncation_of_its_marker():
    """The marker was not committed: the next leader does not have it, and the coordinator writes it again."""
    replicas = Replicas(2)
    old = replicas[1]
    write(old, "a")
    for _ in range(2):
        replicas.catch_up(2)
    end(old, committed=False)
    replicas.elect(2, isr=(1, 2))
    for _ in range(3):
        replicas.catch_up(1)
    assert old.end == 1
    assert old.partition.last_stable_offset == 0
    end(replicas[2], committed=False)
    for _ in range(3):
        replicas.catch_up(1)
    assert seen(old, from_follower=True) == ([], 2)


def test_readers_with_read_committed_are_woken_when_the_last_stable_offset_moves():
    leader = Replicas(1)[1]
    plain, stable = Reader(), Reader()
    leader.partition.readers[plain] = None
    leader.partition.stable_readers[stable] = None
    write(leader, "a")
    leader.append("b")
    assert (plain.woken, stable.woken) == (2, 0)
    end(leader, committed=True)
    assert (plain.woken, stable.woken) == (3, 1)
    leader.append("c")
    assert (plain.woken, stable.woken) == (4, 2)


def test_readers_with_read_committed_are_woken_when_the_leadership_ends():
    replicas = Replicas(2)
    stable = Reader()
    replicas[1].partition.stable_readers[stable] = None
    replicas.elect(2, isr=(1, 2))
    assert stable.woken >= 1


def test_marker_needs_a_leader_and_enough_in_sync_replicas():
    replicas = Replicas(2, min_isr=2)
    assert refused(end, replicas[2], committed=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replicas.elect(1, isr=(1,))
    assert refused(end, replicas[1], committed=True) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_verification_needs_a_leader():
    replicas = Replicas(2)
    begin = {"adds_partition": False, "wall_ms": WALL_MS}
    assert refused(replicas[2].partition.begin_verification, 1, 0, 0, **begin) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    verification = replicas[1].partition.begin_verification(1, 0, 0, **begin)
    write(replicas[1], "a", verification=verification)
    assert replicas[1].partition.begin_verification(1, 0, 1, **begin) is OPEN_HERE
