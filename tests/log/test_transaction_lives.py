"""Transactions in one log with truncations, compaction, kills and power cuts, compared with a list of what was written.

After each: the last stable offset is the first batch of the oldest open transaction, a reader with read_committed sees
exactly the decided records that were not aborted, and every producer continues where it was. A follower that copies the
log has the same state. The disk is the simulation's: after a power cut it keeps any subset of the unsynced data.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import KafkaError
from odradek.log import safeguards
from odradek.log.directory import LogDirectory
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import TRANSACTIONAL
from odradek.protocol.txn_marker import TxnMarker
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import PowerCut
from support.seeded_rng import SeededRng

HOUR_MS = 3600 * 1000
PRODUCERS = (1, 2, 3)
PLAIN = 9  # writes outside of transactions
TV2 = 2


class Written(NamedTuple):
    """One batch."""

    offset: int
    pairs: tuple = ()
    producer_id: int = -1
    epoch: int = 0
    sequence: int = -1
    marker: bool | None = None  # True: commit

    @property
    def end(self):
        return self.offset + max(1, len(self.pairs))

    @property
    def transactional(self):
        return self.producer_id in PRODUCERS


class Expected:
    """What a list of batches means."""

    def __init__(self, batches):
        self.open, self.aborted, self.outcome = {}, [], {}
        self.epochs = {}
        for batch in batches:
            if batch.producer_id >= 0:
                self.epochs[batch.producer_id] = batch.epoch
            if batch.marker is None:
                if batch.transactional:
                    self.open.setdefault(batch.producer_id, []).append(batch.offset)
                else:
                    self.outcome[batch.offset] = True
            elif batch.producer_id in self.open:
                offsets = self.open.pop(batch.producer_id)
                self.outcome |= dict.fromkeys(offsets, batch.marker)
                if not batch.marker:
                    stable = min([batch.end, *(began[0] for began in self.open.values())])
                    self.aborted.append((batch.producer_id, offsets[0], batch.offset, stable))
        end = batches[-1].end if batches else 0
        self.stable = min([end, *(began[0] for began in self.open.values())])
        self.visible = {
            batch.offset + n: pair
            for batch in batches
            if batch.offset < self.stable and self.outcome.get(batch.offset)
            for n, pair in enumerate(batch.pairs)
        }


class Life:
    def __init__(self, partition, seed):
        self.partition = partition
        self.random = random.Random(seed)
        self.rng = SeededRng(seed)
        self.sim = SimDisk(random.Random(seed), DiskKnobs())
        self.identity = partition.log.topic_partition, partition.log.topic_id
        self.batches = []
        self.epochs = dict.fromkeys((*PRODUCERS, PLAIN), 0)
        self.sequences = dict.fromkeys(self.epochs, 0)
        self.coordinator_epoch = self.number = self.committed = self.synced = self.leader_epoch = 0
        self.boot()

    def boot(self):
        disk = self.partition.disk = self.sim.mount()
        logs = self.partition.logs = LogDirectory(disk, self.rng)
        logs.load(lambda _topic: self.partition.config, self.partition.wall_ms)
        self.log = self.partition.log = logs.create_log(*self.identity, self.partition.config, self.partition.wall_ms)
        self.log.appending.begin_epoch(self.leader_epoch)

    def live(self, cut_after):
        left = cut_after

        def before_change(_what):
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut

        self.partition.disk.before_change = before_change
        try:
            for _ in range(self.random.randrange(5, 60)):
                self.act()
            if self.random.random() < 0.3:
                self.partition.logs.close(broker_epoch=1)
                if self.partition.disk.exists(".kafka_cleanshutdown"):
                    self.synced = self.log.log_end_offset
        except PowerCut:
            pass

    def act(self):
        actions = {
            self.write: 30,
            self.write_plain: 8,
            self.end: 22,
            self.roll: 10,
            self.sync: 6,
            self.advance: 10,
            self.truncate: 2,
            self.clean: 6,
            self.wait: 4,
            self.read: 3,
        }
        self.random.choices(list(actions), list(actions.values()))[0]()

    # --- actions

    def pairs(self):
        count = self.random.randrange(1, 4)
        self.number += count
        return tuple(
            (b"key %d" % self.random.randrange(6), b"%d" % (self.number - n) if self.random.random() < 0.8 else None)
            for n in range(count)
        )

    def append(self, producer_id, verification, **header):
        batch = Written(
            self.log.log_end_offset,
            self.pairs(),
            producer_id,
            self.epochs.get(producer_id, 0),
            self.sequences.get(producer_id, -1),
        )
        self.batches.append(batch)
        self.partition.put(
            *batch.pairs,
            leader_epoch=self.leader_epoch,
            verification=verification,
            producer_id=producer_id,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            **header,
        )
        self.sequences[producer_id] = batch.sequence + len(batch.pairs)

    def write(self):
        self.append(self.random.choice(PRODUCERS), NOT_REQUIRED, attributes=TRANSACTIONAL)

    def write_plain(self):
        self.append(PLAIN, None)

    def end(self):
        """Half of the producers speak version 2: their epoch rises with each transaction."""
        producer_id = self.random.choice(PRODUCERS)
        version = TV2 if producer_id % 2 else 0
        if version == TV2:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        self.coordinator_epoch += self.random.random() < 0.1
        committed = self.random.random() < 0.5
        batch = Written(
            self.log.log_end_offset, producer_id=producer_id, epoch=self.epochs[producer_id], marker=committed
        )
        self.batches.append(batch)
        marker = TxnMarker(producer_id, batch.epoch, self.coordinator_epoch, committed, version)
        self.log.appending.marker(marker, self.leader_epoch, self.partition.wall_ms)

    def roll(self):
        if self.log.log_end_offset > self.log.segments.active.base_offset:
            self.partition.roll()

    def sync(self):
        self.log.syncing.whole()
        self.synced = self.log.log_end_offset
        self.partition.logs.write_checkpoints()

    def advance(self):
        self.committed = self.random.choice([b.end for b in self.batches if b.end >= self.committed] or [0])

    def truncate(self):
        at = self.random.randint(self.committed, self.log.log_end_offset)
        self.synced = min(self.synced, max([0, *(batch.end for batch in self.batches if batch.end <= at)]))
        self.log.truncation.to(at)
        self.forget_from(self.log.log_end_offset)
        self.leader_epoch += 1
        self.log.appending.begin_epoch(self.leader_epoch)
        self.continue_producers()

    def clean(self):
        if self.partition.config.compacts:
            self.sync()
            self.partition.clean(committed=self.committed, key_bytes_max=self.random.choice([200, 1 << 20]))

    def wait(self):
        self.partition.wall_ms += self.random.randrange(1, 4) * HOUR_MS

    def read(self):
        self.partition.seen_committed(max_bytes=self.random.choice([1, 300, 5000]))

    # --- checks

    def forget_from(self, end):
        self.batches = [batch for batch in self.batches if batch.end <= end]
        self.committed = min(self.committed, end)

    def continue_producers(self):
        """A producer whose last batches are lost continues after the last one that is there."""
        for producer_id in self.epochs:
            mine = [batch for batch in self.batches if batch.producer_id == producer_id]
            epoch = max([0, *(batch.epoch for batch in mine)])
            data = [b.sequence + len(b.pairs) for b in mine if b.marker is None and b.epoch == epoch]
            self.epochs[producer_id], self.sequences[producer_id] = epoch, max([0, *data])

    def check(self):
        log = self.log
        assert log.log_end_offset >= self.synced
        self.forget_from(log.log_end_offset)
        assert log.log_end_offset == max([0, *(batch.end for batch in self.batches)])
        self.synced = min(self.synced, log.log_end_offset)
        expected = Expected(self.batches)
        self.check_against(expected, self.partition)
        self.check_follower(expected)
        self.continue_producers()
        self.leader_epoch += 1

    def check_against(self, expected, partition):
        open_here, aborted = partition.transaction_state()
        assert partition.stable == expected.stable
        seen = dict(partition.seen_committed(max_bytes=self.random.choice([1, 300, 5000])))
        if not partition.config.compacts:
            assert open_here == {producer_id: offsets[0] for producer_id, offsets in expected.open.items()}
            assert aborted == expected.aborted
            assert seen == {offset: value for offset, (_, value) in expected.visible.items()}
        assert all(expected.visible[offset][1] == value for offset, value in seen.items())
        untouched = range(self.committed, expected.stable)
        assert [o for o in seen if o in untouched] == [o for o in expected.visible if o in untouched]
        keys = {offset: key for offset, (key, _) in expected.visible.items()}
        assert state((keys[o], value) for o, value in seen.items()) == state(expected.visible.values())
        known = partition.log.known_producers(partition.wall_ms).by_id
        assert all(known[producer_id].epoch == epoch for producer_id, epoch in expected.epochs.items())

    def check_follower(self, expected):
        """A new replica that copies the log, in pieces."""
        follower = type(self.partition)(MemoryDisk(), self.partition.config)
        follower.wall_ms = self.partition.wall_ms
        offset, end = self.log.log_start_offset, self.log.log_end_offset
        while (region := self.log.read(offset, self.random.choice([1, 700]), end, True)) is not None:
            follower.log.appending.as_follower(memoryview(region.read()), self.partition.wall_ms)
            region.release()
            offset = follower.log.log_end_offset
        if follower.log.log_end_offset == end:
            self.check_against(expected, follower)


def state(pairs):
    latest = {}
    for key, value in pairs:
        latest.pop(key, None)
        if value is not None:
            latest[key] = value
    return latest


def run(make_partition, seed, policy):
    partition = make_partition(
        cleanup_policy=frozenset({policy}),
        segment_bytes=[400, 900, 3000][seed % 3],
        index_interval_bytes=100,
        delete_retention_ms=5 * HOUR_MS,
        producer_id_expiration_ms=10**12,
    )
    life = Life(partition, seed)
    for _ in range(5):
        life.live(life.random.choice([life.random.randrange(1, 150), 10**9]))
        life.sim.kill() if life.random.random() < 0.3 else life.sim.power_cut()
        life.boot()
        life.check()


def run_all(make_partition, policy):
    for seed in range(30):
        run(make_partition, seed, policy)


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("seed", range(60))
def test_random_transactions_and_crashes(make_partition, seed, policy):
    run(make_partition, seed, policy)


@pytest.mark.parametrize(
    ("rule", "instead", "policy"),
    [
        ("holds_back_open_transactions", lambda _unstable, high_watermark: high_watermark, "delete"),
        ("indexes_aborted", lambda _aborted: None, "delete"),
        ("rebuilds_transaction_index", lambda: False, "delete"),
        ("truncates_transaction_index", lambda: False, "delete"),
        ("drops_aborted", lambda _is_aborted: False, "compact"),
        ("keeps_marker", lambda _has_batches: False, "compact"),
        ("is_cleanable", lambda *_: True, "compact"),
    ],
)
def test_a_rule_that_is_not_followed_is_noticed(make_partition, monkeypatch, rule, instead, policy):
    monkeypatch.setattr(safeguards, rule, instead)
    with pytest.raises((AssertionError, KafkaError, KeyError)):
        run_all(make_partition, policy)
