"""The checks inside a node, given a log whose state contradicts its files."""

from dataclasses import replace
from random import Random

import pytest

from odradek.base.ids import TopicId, TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.sim import records
from odradek.sim.disk import SimDisk
from odradek.sim.history import Violation
from odradek.sim.inode import DiskKnobs
from odradek.sim.inside import check_epochs, check_indexes, check_producers
from odradek.sim.on_disk import stored_logs
from odradek.sim.ports import WALL_START_MS
from odradek.sim.randomness import SimRng

NOW = WALL_START_MS


class OneLog:
    def __init__(self):
        self.disk = SimDisk(Random(1), DiskKnobs())
        self.directory = LogDirectory(self.disk.mount(), SimRng(Random(2)))
        config = LogConfig(index_interval_bytes=0)
        self.log = self.directory.create_log(TopicPartition("orders", 0), TopicId(bytes(16)), config, NOW)
        for leader_epoch in range(3):
            data = records.encode([b"a", b"b"], NOW + leader_epoch, 7, 0, 2 * leader_epoch)
            self.log.appending.as_leader(memoryview(bytearray(data)), leader_epoch, NOW)

    @property
    def stored(self):
        return stored_logs(self.disk.files())["orders-0"]


def test_producers():
    one = OneLog()
    check_producers(one.log, one.stored, NOW, safe=False)
    one.log.known_producers(NOW).by_id[7].batches.pop()
    with pytest.raises(Violation, match=r"^L4 .* producer 7"):
        check_producers(one.log, one.stored, NOW, safe=False)


def test_a_producer_whose_last_batch_was_lost_is_remembered_by_one_that_compaction_had_taken():
    """Compaction left only the last of three batches; it was lost, and a snapshot has the batch before it."""
    one = OneLog()
    left = replace(one.stored, batches=one.stored.batches[:1])
    one.log.cleaned_until = one.log.log_end_offset
    one.log.known_producers(NOW).by_id[7].batches.pop()
    check_producers(one.log, left, NOW, safe=False)
    with pytest.raises(Violation, match=r"^L4 .* producer 7"):
        check_producers(one.log, left, NOW, safe=True)
    one.log.cleaned_until = 2
    with pytest.raises(Violation, match=r"^L4 .* producer 7"):
        check_producers(one.log, left, NOW, safe=False)


def test_epochs():
    one = OneLog()
    check_epochs(one.log, one.stored)
    one.log.leader_epochs.truncate_from_end(4)
    with pytest.raises(Violation, match=r"^L4 .* epoch 2"):
        check_epochs(one.log, one.stored)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_indexes(kind):
    one = OneLog()
    one.directory.close(0)
    files = one.disk.files()
    check_indexes(files)
    path = f"orders-0/{0:020d}.{kind}"
    assert len(files[path]) >= 16
    with pytest.raises(Violation, match=r"^L4"):
        check_indexes({**files, path: files[path][:-1] + bytes([files[path][-1] ^ 1])})
    with pytest.raises(Violation, match=r"^L4"):
        check_indexes({**files, path: bytes(len(files[path]))})
