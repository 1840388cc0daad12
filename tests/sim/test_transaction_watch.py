"""The checks of transactions, given logs whose state contradicts their batches."""

import errno
from random import Random
from unittest import mock

import pytest

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.log import safeguards
from odradek.log.compaction import _emptied as emptied
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.transaction_index import TransactionIndex
from odradek.log.transactions import ABORTED_ENTRY
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import read_header
from odradek.protocol.txn_marker import TxnMarker
from odradek.sim import records
from odradek.sim.disk import SimDisk
from odradek.sim.history import Violation
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import Host
from odradek.sim.on_disk import stored_logs
from odradek.sim.ports import WALL_START_MS
from odradek.sim.randomness import SimRng
from odradek.sim.transaction_watch import (
    StableWatch,
    check_ended,
    check_open_transactions,
    check_transaction_indexes,
    seen_in,
)
from support.transaction_story import A, TransactionStory

NOW = WALL_START_MS
INDEX = "orders-0/00000000000000000000.txnindex"


class OneReplica:
    """A log, and what the watch asks of its partition."""

    topic_id, index = TopicId(bytes(16)), 0

    def __init__(self):
        self.disk = SimDisk(Random(1), DiskKnobs())
        self.directory = LogDirectory(self.disk.mount(), SimRng(Random(2)))
        self.log = self.directory.create_log(TopicPartition("orders", 0), self.topic_id, LogConfig(), NOW)
        self._high_watermark = None

    @property
    def high_watermark(self):
        return self.log.log_end_offset if self._high_watermark is None else self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset):
        self._high_watermark = offset

    @property
    def last_stable_offset(self):
        return self.log.last_stable_offset(self.high_watermark)

    def write(self, producer_id, sequence=0):
        data = records.encode([b"v"], NOW, producer_id, 0, sequence, records.TRANSACTIONAL)
        self.log.appending.as_leader(memoryview(bytearray(data)), 0, NOW, NOT_REQUIRED)

    def end(self, producer_id, *, committed):
        self.log.appending.marker(TxnMarker(producer_id, 0, 0, committed), 0, NOW)

    @property
    def stored(self):
        return stored_logs(self.disk.files())


@pytest.fixture
def one():
    replica = OneReplica()
    replica.write(1)
    replica.write(2)
    replica.end(2, committed=False)
    replica.write(3)
    replica.end(3, committed=True)
    return replica


def test_batches_say_which_transactions_are_open_and_aborted(one):
    seen = seen_in(one.stored["orders-0"].batches)
    assert (seen.open, seen.aborted) == ({1: 0}, [(2, 1, 2, 0)])


def test_last_stable_offset_that_passes_an_open_transaction(one, monkeypatch):
    watch, host = StableWatch(), Host("node1")
    watch.look(host, one)
    monkeypatch.setattr(safeguards, "holds_back_open_transactions", lambda _, high_watermark: high_watermark)
    with pytest.raises(Violation, match=r"^T3 .* last stable offset 5, .* \{1: 0\}"):
        watch.look(host, one)


def test_last_stable_offset_that_stays_behind(one, monkeypatch):
    watch, host = StableWatch(), Host("node1")
    one.end(1, committed=True)
    watch.look(host, one)
    monkeypatch.setattr(OneReplica, "last_stable_offset", 2)
    with pytest.raises(Violation, match=r"^T3 .* nothing is open below 6"):
        watch.look(host, one)


def test_compacted_log_may_stay_before_a_transaction_whose_marker_is_above_an_older_high_watermark(one, monkeypatch):
    watch, host = StableWatch(), Host("node1")
    one.end(1, committed=True)
    one.write(4)
    one.end(4, committed=False)
    one.high_watermark = 6
    monkeypatch.setattr(OneReplica, "last_stable_offset", 2)
    one.log.cleaned_until = 3
    watch.look(host, one)
    one.log.cleaned_until = 2
    with pytest.raises(Violation, match=r"^T3 .* nothing is open below 6"):
        watch.look(host, one)
    one.log.cleaned_until = 3
    one.high_watermark = 8
    with pytest.raises(Violation, match=r"^T3 .* nothing is open below 8"):
        watch.look(host, one)


def test_follower_may_stay_before_a_batch_that_compaction_emptied_on_its_leader_until_it_has_the_marker(one):
    watch, host = StableWatch(), Host("node1")
    one.end(1, committed=True)
    data = memoryview(records.encode([b"v"], NOW, 4, 0, 0, records.TRANSACTIONAL))
    one.log.appending.as_follower(memoryview(emptied(read_header(data)._replace(base_offset=6))), NOW)
    assert (one.last_stable_offset, one.high_watermark) == (6, 7)
    watch.look(host, one)
    check_open_transactions(one.log, one.stored["orders-0"], NOW)
    one.end(4, committed=False)
    assert one.last_stable_offset == 8
    watch.look(host, one)
    with (
        mock.patch.object(OneReplica, "last_stable_offset", 6),
        pytest.raises(Violation, match=r"^T3 .* nothing is open below 8"),
    ):
        watch.look(host, one)


def test_offline_log_may_stay_before_an_aborted_transaction_that_it_could_not_index(one):
    watch, host = StableWatch(), Host("node1")
    one.end(1, committed=True)
    one.write(4)

    def is_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch.object(TransactionIndex, "add", is_full), pytest.raises(KafkaError):
        one.end(4, committed=False)
    assert (one.last_stable_offset, one.high_watermark) == (6, 8)
    watch.look(host, one)
    with (
        mock.patch.object(OneReplica, "last_stable_offset", 5),
        pytest.raises(Violation, match=r"^T3 .* nothing is open below 8"),
    ):
        watch.look(host, one)


def test_marker_above_the_high_watermark_counts_only_after_a_restart(one):
    one.end(1, committed=True)
    one.high_watermark = 5
    StableWatch().look(Host("node1"), one)
    assert one.last_stable_offset == 0
    one.directory.close(broker_epoch=1)
    one.directory = LogDirectory(one.disk.mounted, SimRng(Random(2)))
    one.directory.load(lambda _: LogConfig(), NOW)
    one.log = one.directory.logs[TopicPartition("orders", 0)]
    assert one.last_stable_offset == 5
    StableWatch().look(Host("node1"), one)


def test_truncated_log_is_read_again(one):
    watch, host = StableWatch(), Host("node1")
    watch.look(host, one)
    one.log.truncation.to(2)
    watch.look(host, one)
    assert one.last_stable_offset == 0


def test_open_transaction_that_a_log_has_forgotten(one):
    check_open_transactions(one.log, one.stored["orders-0"], NOW)
    one.log.known_producers(NOW).by_id[1].transaction_start = -1
    with pytest.raises(Violation, match=r"^L4 .* its batches have \{1: 0\}"):
        check_open_transactions(one.log, one.stored["orders-0"], NOW)


def test_open_transaction_that_is_not_in_the_log(one):
    one.log.known_producers(NOW).by_id[3].transaction_start = 3
    with pytest.raises(Violation, match=r"^L4 .* open transactions \{1: 0, 3: 3\}"):
        check_open_transactions(one.log, one.stored["orders-0"], NOW)


@pytest.mark.parametrize(
    ("index", "match"),
    [
        (b"", "^T2 .* does not list"),
        (b"\0", "^L4 .* not whole entries"),
        (ABORTED_ENTRY.pack(0, 2, 0, 2, 0), "^L4 .* lists the aborted transactions"),
        (ABORTED_ENTRY.pack(0, 2, 1, 2, 0) * 2, "^L4 .* lists the aborted transactions"),
        (ABORTED_ENTRY.pack(0, 3, 3, 4, 5) + ABORTED_ENTRY.pack(0, 2, 1, 2, 0), "^L4 .* out of order"),
    ],
)
def test_wrong_indexes(one, index, match):
    files, logs = one.disk.files(), one.stored
    check_transaction_indexes(files, logs)
    with pytest.raises(Violation, match=match):
        check_transaction_indexes({**files, INDEX: index}, logs)


def test_t1_transaction_is_complete_and_open_in_a_partition(one):
    """The partition has epoch 0 of producer 1000, and the coordinator has completed that transaction."""
    story = TransactionStory()
    producer = story.begun(A)
    one.write(producer.producer_id)
    check_ended([story.shard], [one], NOW)
    story.end(producer)
    story.answer_all()
    assert story.state == "CompleteCommit"
    with pytest.raises(Violation, match=r"^T1 .* is still open in"):
        check_ended([story.shard], [one], NOW)
    one.end(producer.producer_id, committed=True)
    check_ended([story.shard], [one], NOW)


def test_t1_does_not_judge_a_state_that_is_not_committed(one):
    """A coordinator that was deposed, and does not know it, has written a new epoch that no other replica has."""
    story = TransactionStory()
    producer = story.init().value
    one.write(producer.producer_id)
    story.partition.replicates_at_once = False
    story.init()
    assert story.transaction.producer_epoch > producer.producer_epoch
    check_ended([story.shard], [one], NOW)
    story.partition.replicate(story.partition.end)
    with pytest.raises(Violation, match=r"^T1 .* is Empty, .* is still open in"):
        check_ended([story.shard], [one], NOW)
