"""Random histories of one log compared with a list: after any sequence of actions the two agree.

Also, after each close, deleting the indexes and rebuilding them changes no byte.
"""

from __future__ import annotations

import random

import pytest

from odradek.log.checkpoints import decode_epochs
from odradek.protocol.compression import Codec


class Model:
    """A list of (offset, value, timestamp, end of its batch), the expected offsets, and the log."""

    def __init__(self, partition, seed):
        self.partition = partition
        self.random = random.Random(seed)
        self.rows = []
        self.start = self.synced = self.end = 0
        self.highest_start = self.leader_epoch = 0
        self.sequence = 0
        self.last = None  # values, timestamps, codec, sequence and offset of the last batch

    def visible(self):
        return [(offset, value, time) for offset, value, time, _ in self.rows if offset >= self.start]

    # --- actions

    def append(self):
        self.leader_epoch = max(self.leader_epoch, self.end // 20)
        count = self.random.randint(1, 4)
        now = self.partition.wall_ms
        values = [self.random.randbytes(self.random.randint(0, 60)) for _ in range(count)]
        times = [now + self.random.randint(-500, 500) for _ in range(count)]
        codec = self.random.choice([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP])
        appended = self.partition.append(
            *values,
            timestamps=times,
            codec=codec,
            producer_id=1,
            producer_epoch=0,
            base_sequence=self.sequence,
            leader_epoch=self.leader_epoch,
        )
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        for value, time in zip(values, times, strict=True):
            self.rows.append((self.end, value, time, appended.last_offset + 1))
            self.end += 1
        self.sequence += count
        self.last = (values, times, codec, self.sequence - count, appended.base_offset)

    def append_again(self):
        if self.last:
            values, times, codec, sequence, base_offset = self.last
            again = self.partition.append(
                *values, timestamps=times, codec=codec, producer_id=1, producer_epoch=0, base_sequence=sequence
            )
            assert (again.base_offset, again.duplicate) == (base_offset, True)

    def read(self):
        offset = self.random.randint(self.start, self.end)
        wanted = [row for row in self.visible() if row[0] >= offset]
        assert self.partition.records(offset, max_bytes=self.random.choice([1, 200, 600, 10_000])) == wanted

    def search(self):
        timestamp = self.partition.wall_ms + self.random.randint(-600, 600)
        end = self.random.randint(self.start, self.end)
        first = next(((time, offset) for offset, _, time in self.visible() if time >= timestamp and offset < end), None)
        found = self.partition.log.offset_for_timestamp(timestamp, end)
        assert (found and found[:2]) == first

    def sync(self):
        self.partition.log.syncing.whole()
        self.synced = self.end

    def sync_rolled(self):
        work = self.partition.log.syncing.begin_rolled()
        self.append()
        work.run()
        self.partition.log.syncing.finish(work)
        self.synced = max(self.synced, work.offset)

    def delete_records(self):
        self.start = self.random.randint(self.start, self.end)
        self.partition.log.advance_log_start(self.start)

    def retain(self):
        self.partition.configure(retention_bytes=self.random.choice([-1, 500, 2000]))
        deleted = self.partition.log.retention.delete_expired(
            self.partition.wall_ms, self.random.randint(self.start, self.end)
        )
        self.partition.logs.retire(deleted)
        for segment in deleted:
            segment.remove()
        assert self.start <= self.partition.log.log_start_offset <= self.end
        self.start = self.partition.log.log_start_offset

    def checkpoint(self):
        self.partition.logs.write_checkpoints()

    def truncate(self):
        at = self.random.randint(max(self.start, self.end - 10), self.end)
        self.partition.log.truncation.to(at)
        self._cut_to(self.partition.log.log_end_offset)
        assert self.end <= at
        self.leader_epoch += 1
        self.synced = min(self.synced, self.end)
        self.start = min(self.start, self.end)
        assert self.partition.log.log_start_offset == self.start

    def restart(self):
        self.partition.restart()
        self.synced = self.end
        assert self.partition.logs.stopped_cleanly
        self._check_offsets()

    def kill(self):
        """kill -9: the kernel still has everything, except perhaps the log start."""
        self.partition.crash()
        assert not self.partition.logs.stopped_cleanly
        self._adopt_older_log_start()
        self._check_offsets()

    def lose_power(self):
        """The unsynced end of the active segment is torn."""
        name = self.partition.names(".log")[-1]
        file = self.partition.disk.open(f"orders-0/{name}")
        synced_end = next((row[3] for row in self.rows if row[0] == self.synced - 1), 0)
        keep_bytes = self._bytes_below(int(name[:20]), synced_end)
        length = self.random.randint(keep_bytes, file.size())
        file.truncate(length)
        file.pwrite(self.random.randbytes(self.random.choice([0, 0, 5, 80])), length)
        self.partition.crash()
        log = self.partition.log
        assert self.synced <= log.log_end_offset <= self.end
        self._cut_to(log.log_end_offset)
        self._adopt_older_log_start()
        if log.size_bytes == 0:
            self.last = None  # it may have restarted empty, without producer state
        self._check_offsets()

    # --- helpers

    def _adopt_older_log_start(self):
        self.highest_start = max(self.highest_start, self.start)
        older = self.partition.log.log_start_offset
        assert older <= max(self.start, self.end)
        self.start = older
        self.rows = [row for row in self.rows if row[3] > older]

    def _bytes_below(self, base_offset, offset):
        active = self.partition.log.segments.active
        assert active.base_offset == base_offset
        seen = active.find(offset)
        return 0 if offset <= base_offset else active.size if seen is None else seen.position

    def _cut_to(self, end):
        gone = sum(1 for row in self.rows if row[0] >= end)
        self.rows = [row for row in self.rows if row[0] < end]
        self.end = end
        self.sequence -= gone
        if gone:
            self._remember_last()

    def _remember_last(self):
        batch = [row for row in self.rows if row[3] == self.end]
        if batch:
            values, times = [row[1] for row in batch], [row[2] for row in batch]
            self.last = (values, times, Codec.NONE, self.sequence - len(batch), batch[0][0])
        else:
            self.last = None

    def _check_offsets(self):
        log = self.partition.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.recovery_point <= self.end

    def check_rebuilt(self):
        """Close, delete indexes and snapshots, open and close again: the files are the same."""
        self.partition.restart()
        self.partition.logs.close(broker_epoch=1)
        derived = [
            name for name in self.partition.names() if name.endswith(("index", "snapshot", "leader-epoch-checkpoint"))
        ]
        before = {name: self.partition.disk.read(f"orders-0/{name}") for name in derived}
        for name in derived:
            self.partition.disk.remove(f"orders-0/{name}")
        self.partition.disk.remove(".kafka_cleanshutdown")
        self.partition.disk.remove("recovery-point-offset-checkpoint")
        self.partition.crash()
        self.partition.logs.close(broker_epoch=1)
        for name, content in before.items():
            if name.endswith(".snapshot") and (int(name[:20]) != self.end or not self.rows):
                continue
            rebuilt = self.partition.disk.read(f"orders-0/{name}")
            if name == "leader-epoch-checkpoint":
                # Deleted records that are back, because the log start was not durable, have lost their epochs.
                seen = max(self.highest_start, self.start)
                assert [e for e in decode_epochs(rebuilt) if e[1] > seen] == [
                    e for e in decode_epochs(content) if e[1] > seen
                ]
                continue
            assert rebuilt == content, name


OPERATIONS = {
    Model.append: 30,
    Model.append_again: 3,
    Model.read: 10,
    Model.search: 8,
    Model.sync: 3,
    Model.sync_rolled: 2,
    Model.delete_records: 1,
    Model.retain: 2,
    Model.checkpoint: 2,
    Model.truncate: 2,
    Model.restart: 2,
    Model.kill: 2,
    Model.lose_power: 3,
}


@pytest.mark.parametrize("seed", range(120))
def test_random_histories(make_partition, seed):
    partition = make_partition(
        segment_bytes=500 + 97 * (seed % 13), index_interval_bytes=[0, 100, 300][seed % 3], max_message_bytes=480
    )
    model = Model(partition, seed)
    for _ in range(70):
        (operation,) = model.random.choices(list(OPERATIONS), list(OPERATIONS.values()))
        operation(model)
    model.read()
    model.check_rebuilt()
