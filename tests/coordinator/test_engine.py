"""The engine on a log in memory, whose high watermark the test moves, with the smallest state machine there is."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_PRODUCER
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.effects import Append, Effects, Now, Producer
from odradek.coordinator.engine import RECORDS_PER_LOOK, Engine, Phase
from odradek.metadata.image import ClusterImage
from odradek.protocol.batch import CONTROL, TRANSACTIONAL, encode_batch, iter_batches, iter_records
from odradek.protocol.control_records import encode_control_key
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.records import Record
from odradek.protocol.txn_marker import TxnMarker
from support.memory_partition import MemoryPartition

NOW = Now(1000, 5000)
IMAGE = ClusterImage(cluster_id="c")


class Ledger:
    """Remembers the last value of each key; it can read only keys of two letters."""

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes | None] = {}
        self.pending: dict[int, dict[bytes, bytes | None]] = {}
        self.markers: list[tuple[int, bool, int]] = []
        self.committed_up_to = 0
        self.replayed = 0
        self.unloaded = False

    def encode(self, change):
        return change

    def decode(self, key, value):
        if len(key) != 2:
            raise MalformedMessage(f"{key!r} is no key")
        return key, value

    def replay(self, change, at, producer_id):
        key, value = change
        self.replayed += 1
        if producer_id == NO_PRODUCER:
            self.latest[key] = value
        else:
            self.pending.setdefault(producer_id, {})[key] = value

    def replay_marker(self, producer_id, committed, at):
        self.markers.append((producer_id, committed, at))
        pending = self.pending.pop(producer_id, {})
        if committed:
            self.latest |= pending

    def commit(self, high_watermark):
        self.committed_up_to = high_watermark

    def loaded(self, now, image):
        return Effects(now)

    def unload(self, now):
        self.unloaded = True
        return Effects(now)


def append_of(*changes, replay=True) -> Append:
    return Append(changes=list(changes), replay=replay, then=lambda _error, now: Effects(now))


@pytest.fixture
def partition():
    return MemoryPartition()


@pytest.fixture
def engine(partition):
    engine = Engine(Ledger(), partition, commit_timeout_ms=5000)
    engine.finish_loading(NOW, IMAGE)
    return engine


def test_a_write_is_one_batch_replayed_at_once_and_answered_when_committed(engine, partition):
    partition.replicates_at_once = False
    heard: list[ErrorCode] = []
    engine.write(append_of((b"k1", b"a"), (b"k2", b"b")), NOW, heard.append)
    [batch] = iter_batches(partition.batches)
    assert [(r.key, r.value, r.timestamp) for r in iter_records(batch.data)] == [
        (b"k1", b"a", 5000),
        (b"k2", b"b", 5000),
    ]
    assert engine.shard.latest == {b"k1": b"a", b"k2": b"b"}
    assert (heard, engine.shard.committed_up_to) == ([], 0)
    partition.replicate(2)
    assert (heard, engine.shard.committed_up_to) == ([ErrorCode.NONE], 2)


def test_answers_come_in_the_order_of_the_log(engine, partition):
    partition.replicates_at_once = False
    heard: list[str] = []
    for name in ("first", "second", "third"):
        engine.write(append_of((b"k1", name.encode())), NOW, lambda _error, name=name: heard.append(name))
    partition.replicate(2)
    assert heard == ["first", "second"]
    partition.replicate(3)
    assert heard == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("log_says", "client_hears"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_failed_append_changes_no_memory_and_returns_a_coordinator_error(engine, partition, log_says, client_hears):
    partition.refusal = log_says
    heard: list[ErrorCode] = []
    engine.write(append_of((b"k1", b"a")), NOW, heard.append)
    assert heard == [client_hears]
    assert engine.shard.latest == {}


def test_changes_that_memory_shows_already_are_not_replayed(engine, partition):
    engine.write(append_of((b"k1", b"a"), replay=False), NOW, lambda _: None)
    assert engine.shard.latest == {}
    assert partition.end == 1


def test_a_commit_that_takes_too_long_times_out_but_is_not_undone(engine, partition):
    partition.replicates_at_once = False
    heard: list[ErrorCode] = []
    engine.write(append_of((b"k1", b"a")), NOW, heard.append)
    assert engine.next_deadline() == NOW.monotonic_ms + 5000
    engine.give_up_waiting(Now(NOW.monotonic_ms + 4999, 0))
    assert heard == []
    engine.give_up_waiting(Now(NOW.monotonic_ms + 5000, 0))
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    partition.replicate(1)
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert engine.shard.committed_up_to == 1


def test_a_stable_read_waits_for_the_commit_of_earlier_writes(engine, partition):
    heard: list[str] = []
    engine.when_all_committed(NOW, lambda _: heard.append("at once"))
    partition.replicates_at_once = False
    engine.write(append_of((b"k1", b"a")), NOW, lambda _: heard.append("written"))
    engine.when_all_committed(NOW, lambda _: heard.append("read"))
    assert heard == ["at once"]
    partition.replicate(1)
    assert heard == ["at once", "written", "read"]


def test_a_write_that_timed_out_is_still_pending(engine, partition):
    partition.replicates_at_once = False
    engine.write(append_of((b"k1", b"a")), NOW, lambda _: None)
    later = Now(NOW.monotonic_ms + 5000, 0)
    engine.give_up_waiting(later)
    heard: list[ErrorCode] = []
    engine.when_all_committed(later, heard.append)
    assert heard == []
    partition.replicate(1)
    assert heard == [ErrorCode.NONE]


def test_retries_of_readers_add_no_callbacks_at_a_partition_that_cannot_commit(engine, partition):
    partition.replicates_at_once = False
    engine.write(append_of((b"k1", b"a")), NOW, lambda _: None)
    heard: list[ErrorCode] = []
    for turn in range(3):
        now = Now(NOW.monotonic_ms + turn * 5000, 0)
        engine.give_up_waiting(now)
        engine.when_all_committed(now, heard.append)
    assert len(partition.waiting) == 1
    partition.replicate(1)
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2 + [ErrorCode.NONE]


def test_a_reader_after_a_failure_waits_for_the_next_commit(engine, partition):
    """After a failed sync, for example: the leadership is not lost yet, and each waiter is answered once."""
    partition.replicates_at_once = False
    heard: list[ErrorCode] = []
    engine.write(append_of((b"k1", b"a")), NOW, heard.append)
    partition.lose_leadership()
    engine.when_all_committed(NOW, heard.append)
    partition.replicate(1)
    assert heard == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]


def test_a_waiting_write_is_answered_once_when_leadership_is_lost(engine, partition):
    partition.replicates_at_once = False
    heard: list[ErrorCode] = []
    engine.write(append_of((b"k1", b"a")), NOW, heard.append)
    partition.lose_leadership()
    engine.unload(NOW)
    assert heard == [ErrorCode.NOT_COORDINATOR]
    assert engine.shard.unloaded
    with pytest.raises(KafkaError) as refusal:
        engine.check_active()
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


def test_loading_replays_the_log_in_slices_and_refuses_requests_meanwhile(partition):
    count = 2 * RECORDS_PER_LOOK + 10
    for n in range(count):
        partition.append(encode_batch([Record(b"k%d" % (n % 10), b"%d" % n)]))
    engine = Engine(Ledger(), partition, commit_timeout_ms=5000)
    slices = engine.load(bytes(partition.batches))
    next(slices)
    with pytest.raises(KafkaError) as refusal:
        engine.check_active()
    assert refusal.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(list(slices)) == 1
    assert engine.shard.committed_up_to == count, "commits are applied during loading"
    engine.finish_loading(NOW, IMAGE)
    engine.check_active()
    assert engine.shard.latest[b"k9"] == b"%d" % (count - 1)
    assert engine.shard.replayed == 10, "only the last of each key"
    assert engine.shard.committed_up_to == count
    with pytest.raises(InvariantBroken):
        next(engine.load(b""))


def test_an_unreadable_record_does_not_affect_other_records(partition):
    partition.append(encode_batch([Record(b"k1", b"a"), Record(b"unreadable", b"x"), Record(b"k2", b"b")]))
    partition.append(encode_batch([Record(b"k0", b"abort")], producer_id=1, attributes=CONTROL))
    partition.append(encode_batch([Record(encode_control_key(9), b"")], producer_id=1, attributes=CONTROL))
    broken = encode_batch([Record(b"k9", b"z")])
    broken[61] = 0x7E
    partition.append(broken)
    partition.append(encode_batch([Record(b"k3", b"c")]))
    engine = Engine(Ledger(), partition, commit_timeout_ms=5000)
    list(engine.load(bytes(partition.batches)))
    assert engine.shard.latest == {b"k1": b"a", b"k2": b"b", b"k3": b"c"}
    assert engine.written_up_to == 7


def test_records_not_yet_replicated_at_loading_are_committed_later(partition):
    partition.replicates_at_once = False
    partition.append(encode_batch([Record(b"k1", b"a")]))
    engine = Engine(Ledger(), partition, commit_timeout_ms=5000)
    list(engine.load(bytes(partition.batches)))
    engine.finish_loading(NOW, IMAGE)
    assert (engine.phase, engine.shard.committed_up_to) == (Phase.ACTIVE, 0)
    partition.replicate(1)
    assert engine.shard.committed_up_to == 1


# Transactions.


def ended(producer_id, committed) -> TxnMarker:
    return TxnMarker(producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, committed=committed)


def marker_of(producer_id, committed) -> Append:
    return Append(changes=(), marker=ended(producer_id, committed), then=lambda _error, now: Effects(now))


def test_changes_of_a_producer_are_one_transactional_batch_and_pending_until_its_marker(engine, partition):
    producer = Producer(producer_id=7, producer_epoch=2)
    append = Append(changes=[(b"k1", b"a")], producer=producer, then=lambda _error, now: Effects(now))
    engine.write(append, NOW, lambda _: None)
    [(header, _)] = iter_batches(bytes(partition.batches))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    assert header.is_transactional
    assert not header.is_control
    assert (engine.shard.latest, engine.shard.pending) == ({}, {7: {b"k1": b"a"}})
    heard: list[ErrorCode] = []
    engine.write(marker_of(7, committed=True), NOW, heard.append)
    assert (heard, engine.shard.latest, engine.written_up_to) == ([ErrorCode.NONE], {b"k1": b"a"}, 2)


def test_a_marker_that_is_not_appended_ends_nothing(engine, partition):
    partition.refusal = ErrorCode.INVALID_PRODUCER_EPOCH
    heard: list[ErrorCode] = []
    engine.write(marker_of(7, committed=True), NOW, heard.append)
    assert (heard, engine.shard.markers) == ([ErrorCode.INVALID_PRODUCER_EPOCH], [])


def test_loading_replays_every_record_of_transactions_and_their_markers_in_order(partition):
    def batch_of(key, value, producer_id=-1):
        attributes = TRANSACTIONAL if producer_id >= 0 else 0
        partition.append(encode_batch([Record(key, value)], producer_id=producer_id, attributes=attributes))

    batch_of(b"k1", b"plain")
    batch_of(b"k1", b"aborted", 7)
    batch_of(b"k2", b"committed", 8)
    batch_of(b"k1", b"committed by 8", 8)
    partition.append_marker(ended(7, committed=False))
    partition.append_marker(ended(8, committed=True))
    batch_of(b"k3", b"open", 7)
    engine = Engine(Ledger(), partition, commit_timeout_ms=5000)
    list(engine.load(bytes(partition.batches)))
    assert engine.shard.latest == {b"k1": b"committed by 8", b"k2": b"committed"}
    assert engine.shard.pending == {7: {b"k3": b"open"}}
    assert engine.shard.markers == [(7, False, 4), (8, True, 5)]


def test_a_turn_that_writes_nothing_can_wait_for_earlier_changes(engine, partition):
    partition.replicates_at_once = False
    heard: list[str] = []
    barrier = Append(changes=(), then=lambda _error, now: Effects(now))
    engine.write(barrier, NOW, lambda _: heard.append("nothing is pending"))
    engine.write(append_of((b"k1", b"a")), NOW, lambda _: heard.append("written"))
    engine.write(barrier, NOW, lambda _: heard.append("after it"))
    assert heard == ["nothing is pending"]
    assert partition.end == 1
    partition.replicate(1)
    assert heard == ["nothing is pending", "written", "after it"]


def test_a_follow_up_that_appends_is_replayed_after_the_append_that_caused_it(engine, partition):
    """An append can advance the high watermark over earlier changes, while its own are not replayed yet."""
    partition.replicates_at_once = False
    engine.write(append_of((b"k1", b"first")), NOW, lambda _: engine.write(append_of((b"k2", b"later")), NOW, print))
    order: list[bytes] = []
    replay = engine.shard.replay
    engine.shard.replay = lambda change, at, producer_id: (order.append(change[1]), replay(change, at, producer_id))
    append = partition.append

    def append_and_advance(batch):
        base = append(batch)
        partition.append = append
        partition.replicate(1)
        return base

    partition.append = append_and_advance
    engine.write(append_of((b"k2", b"second")), NOW, lambda _: None)
    assert order == [b"second", b"later"]
    assert engine.shard.latest[b"k2"] == b"later"
