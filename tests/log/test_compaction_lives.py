"""Compaction with kills and power cuts at any change to the disk, compared with a dict.

Always true: a remaining record is the one written at its offset; the remaining records give the same value for every
key as all written records; no record is missing that was uncommitted during compaction; a tombstone stays for its
retention time. The disk is the simulation's: after a power cut it keeps any subset of the unsynced data.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.base.errors import KafkaError
from odradek.log import safeguards
from odradek.log.directory import LogDirectory
from odradek.protocol.compression import Codec
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import PowerCut

HOUR_MS = 3600 * 1000
RETENTION_MS = 5 * HOUR_MS


class SeededRng:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def bytes(self, count):
        return self.random.randbytes(count)

    def below(self, bound):
        return self.random.randrange(bound)


class Life:
    """One compacted log on one disk, and all records ever written to it."""

    def __init__(self, partition, seed):
        self.partition = partition
        self.sim = SimDisk(random.Random(seed), DiskKnobs())
        self.rng = SeededRng(seed)
        self.identity = partition.log.topic_partition, partition.log.topic_id
        self.rows = {}  # offset -> key, value, time
        self.ends = []  # of batches
        self.synced = self.committed = self.compacted = self.epoch = self.number = 0
        self.boot()

    def boot(self):
        disk = self.partition.disk = self.sim.mount()
        logs = self.partition.logs = LogDirectory(disk, self.rng)
        logs.load(lambda _topic: self.partition.config, self.partition.wall_ms)
        self.log = self.partition.log = logs.create_log(*self.identity, self.partition.config, self.partition.wall_ms)
        self.log.appending.begin_epoch(self.epoch)

    # --- actions

    def put(self, keys, codec):
        """Keys divisible by three get a tombstone."""
        end = self.log.log_end_offset
        pairs = []
        for key in keys:
            self.number += 1
            pairs.append((b"key %d" % (key // 3), b"%d" % self.number if key % 3 else None))
        for n, (key, value) in enumerate(pairs):
            self.rows[end + n] = (key, value, self.partition.wall_ms)
        self.ends.append(end + len(pairs))
        self.partition.put(
            *pairs, leader_epoch=self.epoch, codec=codec, producer_id=1, producer_epoch=0, base_sequence=end
        )

    def roll(self):
        if self.log.log_end_offset > self.log.segments.active.base_offset:
            self.partition.roll()

    def sync(self):
        self.log.syncing.whole()
        self.synced = self.log.log_end_offset

    def checkpoint(self):
        self.partition.logs.write_checkpoints()

    def commit(self, back):
        """Commit as a leader: up to what all replicas have."""
        self.committed = max(self.committed, self.log.log_end_offset - back)

    def clean(self, key_bytes_max):
        self.compacted = max(self.compacted, self.committed)
        if self.log.recovery_point < self.log.log_end_offset:
            self.sync()
        done = self.partition.clean(committed=self.committed, key_bytes_max=key_bytes_max)
        if done:
            self.check_compacted()

    def truncate(self, back):
        """Truncate as a follower: committed records stay."""
        at = max(self.committed, self.log.log_end_offset - back)
        self.synced = min(self.synced, max((end for end in self.ends if end <= at), default=0))
        self.log.truncation.to(at)
        self.forget_from(self.log.log_end_offset)
        self.committed = min(self.committed, self.log.log_end_offset)
        self.epoch += 1
        self.log.appending.begin_epoch(self.epoch)

    def delete_records(self, count):
        self.log.advance_log_start(min(self.committed, self.log.log_start_offset + count))

    def wait(self, hours):
        self.partition.wall_ms += hours * HOUR_MS

    def change_policy(self, *policy):
        self.partition.configure(cleanup_policy=frozenset(policy))

    # --- checks

    def forget_from(self, end):
        self.rows = {offset: row for offset, row in self.rows.items() if offset < end}
        self.ends = [kept for kept in self.ends if kept <= end]

    def check_compacted(self):
        compacted = range(self.log.log_start_offset, self.log.cleaned_until)
        keys = [key for offset, key, _ in self.partition.rows() if offset in compacted]
        assert len(keys) == len(set(keys)), "a key twice in what was compacted"

    def check(self):
        log = self.log
        start, end = log.log_start_offset, log.log_end_offset
        found = {offset: (key, value) for offset, key, value in self.partition.rows() if offset >= start}
        assert end >= self.synced or start == end
        assert all(self.rows[offset][:2] == row for offset, row in found.items())
        untouched = range(max(start, self.compacted), end)
        assert [offset for offset in self.rows if offset in untouched] == [o for o in found if o in untouched]
        written = {offset: row for offset, row in self.rows.items() if start <= offset < end}
        assert state(found) == state(written)
        latest = {key: offset for offset, (key, _, _) in written.items()}
        for offset in latest.values():
            _, value, written_ms = written[offset]
            if value is None and self.partition.wall_ms < written_ms + RETENTION_MS:
                assert offset in found, "a deletion that not everybody has seen"
        self.check_producer(start, end)
        self.forget_from(end)
        self.synced, self.committed = min(self.synced, end), min(self.committed, end)
        self.compacted = min(self.compacted, end)
        self.epoch += 1

    def check_producer(self, start, end):
        before = max([0, *(e for e in self.ends if e < end)])
        if self.rows and end in self.ends and start < before:
            pairs = [self.rows[offset][:2] for offset in range(before, end)]
            again = self.partition.put(*pairs, producer_id=1, producer_epoch=0, base_sequence=before)
            assert (again.duplicate, again.base_offset) == (True, before)


def state(rows):
    latest = {}
    for offset in sorted(rows):
        key, value = rows[offset][:2]
        latest[key] = value
    return {key: value for key, value in latest.items() if value is not None}


@pytest.fixture
def make_life(make_partition):
    def make(seed, **options):
        return Life(
            make_partition(
                **{
                    "cleanup_policy": frozenset({"compact"}),
                    "segment_bytes": 400,
                    "index_interval_bytes": 100,
                    "max_message_bytes": 390,
                    "delete_retention_ms": RETENTION_MS,
                    **options,
                }
            ),
            seed,
        )

    return make


def live(life, actions, cut_after):
    """Run the actions, or stop in the middle of a change to the disk. False when all actions ran."""
    left = cut_after

    def before_change(_what):
        nonlocal left
        left -= 1
        if left < 0:
            raise PowerCut

    life.partition.disk.before_change = before_change
    try:
        for action in actions:
            action(life)
    except PowerCut:
        return True
    return False


def story(life):
    """Merged segments, tombstones before and after their retention time, memory for few keys, a truncation."""
    for keys in ([1, 4, 7], [1, 4], [7, 3], [10, 13]):
        life.put(keys, Codec.NONE)
        life.roll()
    life.put([1], Codec.LZ4)
    life.commit(0)
    life.clean(1 << 20)
    life.wait(1)
    life.put([10], Codec.NONE)
    life.roll()
    life.commit(0)
    life.clean(1 << 20)
    life.wait(6)
    for keys in ([4, 16], [4, 19]):
        life.put(keys, Codec.ZSTD)
        life.roll()
    life.commit(2)
    life.clean(400)
    life.put([22, 4], Codec.NONE)
    life.truncate(10)
    life.put([25], Codec.NONE)
    life.roll()
    life.commit(0)
    life.clean(1 << 20)


@pytest.mark.parametrize("seed", range(2))
def test_crash_at_every_step_of_a_compaction(make_life, seed):
    cut_after = 0
    while True:
        life = make_life(seed + cut_after)
        cut = live(life, [story], cut_after)
        if cut_after % 4 == 3:
            life.sim.kill()
        else:
            life.sim.power_cut()
        life.boot()
        life.check()
        life.put([1, 4], Codec.NONE)
        life.roll()
        life.commit(0)
        life.clean(1 << 20)
        life.check()
        if not cut:
            break
        cut_after += 1
    assert cut_after > 150


keys = st.integers(0, 30)
actions = st.one_of(
    st.builds(lambda k, c: lambda life: life.put(k, c), st.lists(keys, min_size=1, max_size=4), st.sampled_from(Codec)),
    st.builds(lambda k, c: lambda life: life.put(k, c), st.lists(keys, min_size=1, max_size=4), st.sampled_from(Codec)),
    st.just(Life.roll),
    st.just(Life.sync),
    st.just(Life.checkpoint),
    st.builds(lambda n: lambda life: life.commit(n), st.integers(0, 4)),
    st.builds(lambda n: lambda life: life.clean(n), st.sampled_from([400, 1 << 20])),
    st.builds(lambda n: lambda life: life.truncate(n), st.integers(0, 5)),
    st.builds(lambda n: lambda life: life.delete_records(n), st.integers(0, 4)),
    st.builds(lambda n: lambda life: life.wait(n), st.integers(1, 6)),
    st.just(lambda life: life.change_policy("delete")),
    st.just(lambda life: life.change_policy("compact")),
    st.just(lambda life: life.change_policy("compact", "delete")),
)
lives = st.lists(
    st.tuples(st.lists(actions, max_size=40), st.one_of(st.integers(0, 150), st.just(10**9)), st.booleans()), max_size=4
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(lives=lives, seed=st.integers(0, 1000))
def test_random_actions_and_crashes(make_life, lives, seed):
    life = make_life(seed)
    for doings, cut_after, power in lives:
        live(life, doings, cut_after)
        life.sim.power_cut() if power else life.sim.kill()
        life.boot()
        life.check()


def swallows(*_args):
    """A disabled rule."""


@pytest.mark.parametrize(
    ("rule", "instead"),
    [
        ("is_cleanable", lambda *_: True),
        ("keeps_deletion", lambda *_: False),
        ("sync_before_swap", swallows),
        ("sync_swap", swallows),
    ],
)
def test_a_rule_that_is_not_followed_is_noticed(make_life, monkeypatch, rule, instead):
    monkeypatch.setattr(safeguards, rule, instead)
    with pytest.raises((AssertionError, KafkaError)):
        test_crash_at_every_step_of_a_compaction(make_life, 0)
