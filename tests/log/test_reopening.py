"""A failed log is reopened in the same process: no record is lost, even by a later power cut."""

from __future__ import annotations

from random import Random

import pytest

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.log import reopening
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.sim import records
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.on_disk import stored_logs
from odradek.sim.ports import WALL_START_MS
from odradek.sim.randomness import SimRng

NOW = WALL_START_MS
TP = TopicPartition("orders", 0)
SOUND = DiskKnobs(survival=0.0)
FSYNC_FAILS = DiskKnobs(survival=0.0, sync_error=1.0)


class OneLog:
    """A log on a disk where a power cut removes all unsynced data."""

    def __init__(self, **config) -> None:
        self.disk = SimDisk(Random(1), SOUND)
        self.directory = LogDirectory(self.disk.mount(), SimRng(Random(2)))
        self.log = self.directory.create_log(TP, TopicId(bytes(range(16))), LogConfig(**config), NOW)
        self.sent = 0

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            data = records.encode([b"%d" % self.sent], NOW, 7, 0, self.sent)
            self.log.appending.as_leader(memoryview(bytearray(data)), 0, NOW)
            self.sent += 1

    def fail_fsync(self) -> None:
        self.disk.knobs = FSYNC_FAILS
        with pytest.raises(KafkaError):
            self.log.syncing.whole()
        self.disk.knobs = SOUND
        assert self.log.offline

    def reopen(self) -> None:
        failed = self.log
        self.log = self.directory.reopen(failed, NOW)
        self.directory.succeed(failed, self.log)
        assert self.directory.get(TP) is self.log
        with pytest.raises(KafkaError):
            failed.appending.as_leader(memoryview(bytearray(records.encode([b"x"], NOW, -1, -1, -1))), 0, NOW)

    def after_a_power_cut(self) -> int:
        self.disk.power_cut()
        return stored_logs(self.disk.files())["orders-0"].end


def test_data_of_a_failed_fsync_is_rewritten() -> None:
    one = OneLog()
    one.append(3)
    one.fail_fsync()
    one.reopen()
    one.append()
    one.log.syncing.whole()
    assert one.log.recovery_point == 4
    assert one.after_a_power_cut() == 4


def test_without_the_rewrite_the_next_fsync_would_lose_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopening, "write_again", lambda *_: None)
    one = OneLog()
    one.append(3)
    one.fail_fsync()
    one.reopen()
    one.append()
    one.log.syncing.whole()
    assert one.log.recovery_point == 4
    assert one.after_a_power_cut() == 0


def test_reopened_log_continues_over_several_segments() -> None:
    one = OneLog(segment_bytes=300)
    one.append(9)
    one.log.syncing.whole()
    one.append(6)
    segments, end, start = one.log.segment_count, one.log.log_end_offset, one.log.log_start_offset
    one.fail_fsync()
    one.reopen()
    assert segments > 3
    assert (one.log.segment_count, one.log.log_end_offset, one.log.log_start_offset) == (segments, end, start)
    # The producer state is there: the next batch is neither a gap nor a duplicate.
    one.append()
    one.log.syncing.whole()
    assert one.after_a_power_cut() == 16


def test_log_cannot_be_reopened_while_the_disk_is_full() -> None:
    one = OneLog()
    one.append(2)
    one.disk.full = True
    with pytest.raises(KafkaError):
        one.append()
    with pytest.raises(OSError, match="No space"):
        one.directory.probe()
    with pytest.raises(OSError, match="No space"):
        one.reopen()
    one.disk.full = False
    one.directory.probe()
    one.reopen()
    one.append()
    assert one.log.log_end_offset == 3
    assert reopening.PROBE not in one.disk.files()


def test_config_changed_during_the_reopening_is_kept():
    one = OneLog()
    one.append()
    one.fail_fsync()
    reopened = one.directory.reopen(one.log, NOW)
    one.log.configure(LogConfig(flush_messages=1))
    one.directory.succeed(one.log, reopened)
    assert reopened.config.flush_messages == 1
