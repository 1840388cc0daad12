"""One log with a series of power cuts and kills, each at any change to the disk.

After each: the log is a prefix of what was appended, has no holes, has everything that was synced, and knows its
producer. The disk is the simulation's: after a power cut it keeps any subset of the unsynced data.
"""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import KafkaError
from odradek.log.directory import LogDirectory
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import PowerCut
from support.seeded_rng import SeededRng


class Machine:
    def __init__(self, partition, seed, knobs):
        self.partition = partition
        self.random = random.Random(seed)
        self.rng = SeededRng(seed)
        self.knobs = knobs
        self.sim = SimDisk(random.Random(seed), DiskKnobs())
        self.identity = partition.log.topic_partition, partition.log.topic_id
        self.values = {}  # by offset, every value that may be there
        self.ends = []  # where batches end
        self.synced = self.highest_start = self.leader_epoch = 0
        self.boot()

    def boot(self):
        self.sim.knobs = DiskKnobs()  # no faults at a start: an error would stop the start, but lose nothing
        disk = self.partition.disk = self.sim.mount()
        logs = self.partition.logs = LogDirectory(disk, self.rng)
        logs.load(lambda _topic: self.partition.config, self.partition.wall_ms)
        self.log = self.partition.log = logs.create_log(*self.identity, self.partition.config, self.partition.wall_ms)
        self.sim.knobs = self.knobs

    def live(self):
        """Run until the end, a fault, or a cut in the middle of a change to the disk."""
        left = self.random.choice([self.random.randrange(1, 120), 10**9])

        def before_change(_what):
            nonlocal left
            left -= 1
            if left <= 0:
                raise PowerCut

        self.partition.disk.before_change = before_change
        try:
            self.log.appending.begin_epoch(self.leader_epoch)
            for _ in range(self.random.randrange(5, 60)):
                action = self.random.choices(
                    [
                        self.append,
                        self.sync,
                        self.checkpoint,
                        self.retain,
                        self.delete_records,
                        self.truncate,
                        self.read,
                    ],
                    [60, 15, 5, 5, 2, 3, 3],
                )[0]
                action()
            if self.random.random() < 0.4:
                self.stop()
        except (PowerCut, KafkaError, OSError):
            pass

    def append(self):
        values = [self.random.randbytes(self.random.randrange(80)) for _ in range(self.random.randrange(1, 4))]
        end = self.log.log_end_offset
        self.values.update(enumerate(values, end))
        self.ends.append(end + len(values))
        self.partition.append(
            *values, leader_epoch=self.leader_epoch, producer_id=1, producer_epoch=0, base_sequence=end
        )

    def sync(self):
        work = self.random.choice([self.log.syncing.begin, self.log.syncing.begin_rolled])()
        work.run()
        self.log.syncing.finish(work)
        self.synced = max(self.synced, self.log.recovery_point)

    def checkpoint(self):
        self.partition.logs.write_checkpoints()

    def retain(self):
        deleted = self.log.retention.delete_expired(self.partition.wall_ms, self.log.log_end_offset)
        self.highest_start = max(self.highest_start, self.log.log_start_offset)
        self.partition.logs.retire(deleted)
        for segment in deleted:
            segment.remove()

    def delete_records(self):
        start = self.random.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.highest_start = max(self.highest_start, start)
        self.log.advance_log_start(start)

    def truncate(self):
        end = self.log.log_end_offset
        at = self.random.randint(max(self.log.log_start_offset, end - 6), end)
        self.synced = min(self.synced, max((kept for kept in self.ends if kept <= at), default=0))
        self.log.truncation.to(at)
        self.forget_from(self.log.log_end_offset)
        self.leader_epoch += 1
        self.log.appending.begin_epoch(self.leader_epoch)

    def read(self):
        self.partition.records(max_bytes=self.random.choice([1, 300, 5000]))

    def stop(self):
        self.partition.logs.close(broker_epoch=1)
        if self.partition.disk.exists(".kafka_cleanshutdown"):
            self.synced = self.log.log_end_offset

    def end(self):
        if self.random.random() < 0.3:
            self.sim.kill()
        else:
            self.sim.power_cut()

    def forget_from(self, end):
        self.values = {offset: value for offset, value in self.values.items() if offset < end}
        self.ends = [kept for kept in self.ends if kept <= end]

    def check(self):
        log, found = self.log, self.partition.records()
        end = log.log_end_offset
        # Exception: it ended below a durable log start and restarted empty there.
        assert end >= self.synced or log.log_start_offset == end
        assert log.log_start_offset <= self.highest_start
        assert [offset for offset, _, _ in found] == list(range(log.log_start_offset, end))
        assert all(self.values[offset] == value for offset, value, _ in found)
        self.forget_from(end)
        self.synced = min(self.synced, end)
        self.leader_epoch += 1
        if found and log.log_start_offset < max([0, *self.ends[:-1]]) < end == self.ends[-1]:
            first = max(self.ends[:-1])
            values = [self.values[offset] for offset in range(first, end)]
            again = self.partition.append(*values, producer_id=1, producer_epoch=0, base_sequence=first)
            assert (again.duplicate, again.base_offset) == (True, first)


@pytest.mark.parametrize("faults", ["power", "power and disk"])
@pytest.mark.parametrize("seed", range(60))
def test_random_power_cuts_and_kills(make_partition, seed, faults):
    partition = make_partition(
        segment_bytes=[500, 900, 3000][seed % 3],
        index_interval_bytes=[0, 100, 300][seed % 3],
        retention_bytes=[-1, -1, 1500][seed % 3],
    )
    knobs = DiskKnobs() if faults == "power" else DiskKnobs(short_write=0.01, write_error=0.005)
    machine = Machine(partition, seed, knobs)
    for _ in range(8):
        machine.live()
        machine.end()
        machine.boot()
        machine.check()
