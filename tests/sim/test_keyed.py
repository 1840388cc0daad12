"""What must never happen in a compacted topic: each checker is given its violation."""

from random import Random

import pytest

from odradek.base.ids import TopicId, TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.log import Log
from odradek.protocol.messages.p01_fetch import PartitionData
from odradek.sim import records
from odradek.sim.agreement import check_replica_logs
from odradek.sim.checkers import RecoveryWatch, check_keyed_sightings
from odradek.sim.disk import SimDisk
from odradek.sim.history import History, Violation
from odradek.sim.inode import DiskKnobs
from odradek.sim.keyed import COMPACTED, OFFSET_MAX, Deletions, check_compacted, key_of, last_deletions, tell
from odradek.sim.ledger import CompactedLedger
from odradek.sim.loop import Host
from odradek.sim.on_disk import stored_logs
from odradek.sim.ports import WALL_START_MS
from odradek.sim.randomness import SimRng
from odradek.sim.workloads.reading import PartitionReader

NOW = WALL_START_MS
PLACE = (COMPACTED, 0)
DIRECTORY = f"{COMPACTED}-0"


def put(key, text, later=0):
    return tell(key, text, NOW + later, deletes=False)


def delete(key, text):
    return tell(key, text, NOW, deletes=True)


A1, A2, B1, B_GONE = put(b"a", b"1"), put(b"a", b"2"), put(b"b", b"1"), delete(b"b", b"gone")


def batch(offset, *told, end=None):
    """`end`: where the batch ended before it was compacted."""
    encoded = bytearray(records.encode_keyed(told))
    if end is not None:
        encoded[23:27] = (end - offset - 1).to_bytes(4, "big")
        encoded[17:21] = records.crc32c(encoded[21:]).to_bytes(4, "big")
    encoded[:8] = offset.to_bytes(8, "big")
    return bytes(encoded)


def log_name(offset):
    return f"{DIRECTORY}/{offset:020d}.log"


def test_records_with_keys_round_trip():
    told = (put(b"a", b"x" * 200, later=7), delete(b"a", b"name"), put(b"bb", b"", later=-3))
    (seen,) = records.whole_batches(batch(40, *told))
    assert seen.records() == list(enumerate(told, start=40))
    assert seen.max_timestamp == NOW + 7
    assert [key_of(each) for each in told] == [b"a", b"a", b"bb"]


def lies(promise, written, left, deletions=Deletions.STAY, **more):
    with pytest.raises(Violation, match=f"^{promise}"):
        check_compacted("it", written, left, deletions, **more)


def test_the_latest_of_each_key_stays_as_it_was_written():
    check_compacted("it", {0: A1, 1: B1, 2: A2}, {1: B1, 2: A2}, Deletions.STAY)
    check_compacted("it", {0: A1}, {3: A2}, Deletions.STAY)
    lies("L6", {0: A1, 1: B1}, {0: A1})
    lies("L6", {0: A1, 2: A2}, {0: A1})
    lies("J2", {0: A1}, {0: A2})
    lies("J2", {0: A1}, {0: put(b"a", b"1", later=1)})
    check_compacted("it", {0: A1, 1: B1}, {1: B1}, Deletions.STAY, start=1)


def test_a_deletion_goes_only_after_what_it_deletes():
    lies("L6", {0: B1, 1: B_GONE}, {})
    check_compacted("it", {0: B1, 1: B_GONE}, {}, Deletions.GO)
    lies("L6", {0: B1, 1: B_GONE}, {0: B1}, Deletions.GO)
    check_compacted("it", {0: B1, 1: B_GONE}, {0: B1}, Deletions.ARE_MISSED)
    lies("L6", {0: A1, 1: A2}, {0: A1}, Deletions.ARE_MISSED)


def test_a_compacted_log_may_have_missing_offsets():
    files = {log_name(0): batch(0, A1) + batch(4, B1), log_name(9): batch(9, A2)}
    assert stored_logs(files)[DIRECTORY].content() == {0: A1, 4: B1, 9: A2}
    swapped = {log_name(0) + ".swap": batch(4, B1), log_name(3): batch(4, B1), log_name(9): batch(9, A2)}
    assert stored_logs(swapped)[DIRECTORY].content() == {4: B1, 9: A2}
    del swapped[log_name(3)]
    assert stored_logs(swapped)[DIRECTORY].content() == {4: B1, 9: A2}
    assert stored_logs({**swapped, log_name(0): batch(0, A1)})[DIRECTORY].content() == {0: A1, 9: A2}


def recover(before, after, synced_to):
    watch = RecoveryWatch()
    watch.stopping({log_name(0): before}, {DIRECTORY: synced_to}, power_cut=True)
    watch.loaded({log_name(0): after}, lambda _directory: False)


def test_recovery_may_finish_a_compaction_and_nothing_else():
    recover(batch(0, A1) + batch(1, B1) + batch(2, A2), batch(1, B1) + batch(2, A2), 3)
    with pytest.raises(Violation, match=r"^L6"):
        recover(batch(0, A1) + batch(1, B1) + batch(2, A2), batch(0, A1) + batch(2, A2), 3)
    with pytest.raises(Violation, match=r"^L2 .* another"):
        recover(batch(0, A1) + batch(1, B1), batch(0, A1) + batch(1, A2), 1)


def answer(*batches):
    return PartitionData(
        partition_index=0, high_watermark=20, last_stable_offset=20, log_start_offset=0, records=b"".join(batches)
    )


def test_a_reader_goes_on_behind_what_is_missing_but_never_back():
    reader = PartitionReader(PLACE, 2)
    assert reader.take(("node", 1, 0), answer(batch(0, A1, end=4), batch(7, B1, end=9))) == [(7, B1)]
    assert reader.position == 9
    with pytest.raises(Violation, match=r"^J4"):
        reader.take(("node", 1, 0), answer(batch(7, B1)))
    with pytest.raises(Violation, match=r"^L1"):
        reader.take(("node", 1, 0), answer(batch(9, B1, end=12), batch(11, A2)))
    with pytest.raises(Violation, match=r"^J4"):
        PartitionReader(("orders", 0), 2).take(("node", 1, 0), answer(batch(7, B1)))


class Copy:
    """A replica of the compacted log on a disk of its own."""

    def __init__(self, number, *batches):
        self.host = Host(f"node{number}")
        self.disk = SimDisk(Random(number), DiskKnobs())
        logs = LogDirectory(self.disk.mount(), SimRng(Random(number)))
        config = LogConfig(cleanup_policy=frozenset({"compact"}))
        self.log = logs.create_log(TopicPartition(*PLACE), TopicId(bytes(16)), config, NOW)
        for each in batches:
            self.log.appending.as_follower(memoryview(each), NOW)


def compare(*copies, deletions=Deletions.STAY):
    ledger = CompactedLedger(DIRECTORY, deletions)
    for copy in copies:
        ledger.compare(copy.host, copy.log, copy.log.log_end_offset)
    ledger.require_latest(all_compared=True)


def compare_disks(*copies, deletions=Deletions.STAY, may_lose=(), **deleted_at):
    files = {copy.host.name: copy.disk.files() for copy in copies}
    keys_deleted_at = {DIRECTORY: {key.encode(): at for key, at in deleted_at.items()}}
    check_replica_logs(files, {}, deletions, keys_deleted_at, may_lose)


def test_replicas_compact_by_themselves_and_agree():
    whole, compacted = Copy(1, batch(0, A1), batch(1, B1), batch(2, A2)), Copy(2, batch(1, B1), batch(2, A2))
    for compared in (compare, compare_disks):
        compared(whole, compacted, Copy(3, batch(0, A1)))
        compared(whole, compacted, Copy(3, batch(1, B1)))


@pytest.mark.parametrize(("compare", "promise"), [(compare, "R3"), (compare_disks, "J2")])
def test_a_replica_that_lacks_the_latest_of_a_key_or_has_another(compare, promise):
    whole = Copy(1, batch(0, A1), batch(1, B1), batch(2, A2))
    with pytest.raises(Violation, match=r"^L6 .* offset 1 "):
        compare(whole, Copy(2, batch(0, A1), batch(2, A2)))
    with pytest.raises(Violation, match=f"^{promise} .* (at|offset) 0"):
        compare(whole, Copy(2, batch(0, put(b"a", b"3")), batch(1, B1), batch(2, A2)))


def test_where_records_are_lost_one_may_lack_what_a_lost_one_replaced():
    """Power cuts removed A2 from all replicas but the second, which had compacted with it and was then truncated."""
    first, second = Copy(1, batch(0, A1), batch(1, B1)), Copy(2, batch(1, B1))
    compare_disks(first, second, may_lose=(DIRECTORY,))
    with pytest.raises(Violation, match=r"^L6 .* offset 0 "):
        compare_disks(first, second, may_lose=("orders-0",))
    with pytest.raises(Violation, match=r"^J2 .* offset 1 "):
        compare_disks(first, Copy(2, batch(1, put(b"b", b"3"))), may_lose=(DIRECTORY,))


def test_a_replica_whose_disk_fails_is_compared_later(monkeypatch):
    whole, lacking = Copy(1, batch(0, A1), batch(1, B1), batch(2, A2)), Copy(2, batch(0, A1), batch(2, A2))
    ledger = CompactedLedger(DIRECTORY, Deletions.STAY)
    ledger.compare(whole.host, whole.log, 3)

    def refuse(*_, **__):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Log, "read", refuse)
        ledger.compare(lacking.host, lacking.log, 3)
        ledger.require_latest(all_compared=True)
    ledger.compare(lacking.host, lacking.log, 3)
    with monkeypatch.context() as broken:
        broken.setattr(Log, "read", refuse)
        ledger.require_latest(all_compared=True)
    ledger.compare(lacking.host, lacking.log, 3)
    with pytest.raises(Violation, match=r"^L6 .* offset 1 "):
        ledger.require_latest(all_compared=True)


def test_a_copy_may_lack_what_its_leader_replaced_beyond_its_end():
    had, leader = Copy(1, batch(0, A1), batch(1, B1)), Copy(3, batch(1, B1), batch(2, A2))
    copying = Copy(2, batch(1, B1))
    compare(had, copying, leader)
    with pytest.raises(Violation, match=r"^L6 .* offset 0 "):
        compare(had, copying)


def test_a_replica_that_lacks_a_record_is_judged_only_once_all_replicas_are_compared():
    ledger = CompactedLedger(DIRECTORY, Deletions.STAY)
    for _ in range(2):
        for copy in (Copy(1, batch(0, A1), batch(1, B1)), lacking := Copy(2, batch(1, B1))):
            ledger.compare(copy.host, copy.log, copy.log.log_end_offset)
        ledger.require_latest(all_compared=False)
    ledger.compare(lacking.host, lacking.log, 2)
    with pytest.raises(Violation, match=r"^L6 .* offset 0 "):
        ledger.require_latest(all_compared=True)


def test_a_deletion_may_be_written_and_removed_between_two_checks():
    had = Copy(1, batch(0, A1), batch(1, B1))
    compare(had, Copy(2, batch(0, A1), batch(3, A2)), deletions=Deletions.GO)
    with pytest.raises(Violation, match=r"^L6"):
        compare(had, Copy(2, batch(0, A1), batch(2, A2)), deletions=Deletions.GO)


def test_a_replica_that_missed_a_deletion_may_have_missed_what_was_deleted():
    had = Copy(1, batch(0, B1), batch(1, put(b"b", b"2")))
    was_away = Copy(2, batch(0, B1), batch(3, A2))
    compare(had, was_away, deletions=Deletions.ARE_MISSED)
    with pytest.raises(Violation, match=r"^L6 .* offset 1 "):
        compare(had, was_away, deletions=Deletions.GO)
    with pytest.raises(Violation, match=r"^L6 .* offset 1 "):
        compare(had, Copy(2, batch(0, B1), batch(2, A2)), deletions=Deletions.ARE_MISSED)


def test_a_replica_that_was_away_keeps_what_is_deleted_elsewhere():
    was_away, was_there = Copy(1, batch(0, B1), batch(3, A2)), Copy(2, batch(3, A2))
    compare_disks(was_away, was_there, deletions=Deletions.ARE_MISSED, b=2)
    compare_disks(was_there, was_away, deletions=Deletions.ARE_MISSED, b=2)
    for lie in ({}, {"a": 2}, {"b": 0}):
        with pytest.raises(Violation, match=r"^L6 .* offset 0 "):
            compare_disks(was_away, was_there, deletions=Deletions.ARE_MISSED, **lie)
    with pytest.raises(Violation, match=r"^L6 .* offset 0 "):
        compare_disks(was_away, was_there, deletions=Deletions.STAY, b=2)
    with pytest.raises(Violation, match=r"^J2 .* offset 0 "):
        compare_disks(was_away, Copy(3, batch(0, A1), batch(3, A2)), deletions=Deletions.ARE_MISSED, b=2)


def test_the_last_deletion_of_a_key_is_where_a_client_saw_it_or_at_any_offset():
    history = History()
    history.sends(PLACE, [B1, B_GONE, delete(b"b", b"again"), delete(b"c", b"gone")], once=True)
    history.sends((COMPACTED, 1), [delete(b"a", b"gone")], once=True)
    history.acknowledged(1, PLACE, 4, [B1, B_GONE])
    history.polled(1, PLACE, [(7, delete(b"b", b"again"))])
    assert last_deletions(history, PLACE) == {b"b": 7, b"c": OFFSET_MAX}


def test_the_latest_record_that_readers_saw_of_a_key_must_stay():
    history = History()
    history.sends(PLACE, [A1, A2], once=True)
    history.acknowledged(1, PLACE, 0, [A1])
    history.polled(1, PLACE, [(1, A2)])
    check_keyed_sightings(history, PLACE, {1: A2}, Deletions.STAY, safe=True)
    with pytest.raises(Violation, match=r"^L6"):
        check_keyed_sightings(history, PLACE, {0: A1}, Deletions.STAY, safe=True)
    with pytest.raises(Violation, match=r"^J3"):
        check_keyed_sightings(history, PLACE, {2: A2}, Deletions.STAY, safe=True)


def test_a_deletion_without_an_answer_may_come_and_go():
    history = History()
    history.sends(PLACE, [A1, tell(b"a", b"x", 2, deletes=True)], once=True)
    history.acknowledged(1, PLACE, 0, [A1])
    check_keyed_sightings(history, PLACE, {}, Deletions.GO, safe=True)
    with pytest.raises(Violation, match=r"^L6"):
        check_keyed_sightings(history, PLACE, {}, Deletions.STAY, safe=True)
