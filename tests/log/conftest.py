"""Fixtures: one partition on one disk, and methods that write, compact, crash and restart it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.ids import TopicId, TopicPartition
from odradek.log.cleaning import clean
from odradek.log.config import LogConfig
from odradek.log.deleted import remove
from odradek.log.directory import LogDirectory
from odradek.log.verification import NOT_REQUIRED
from odradek.protocol.batch import TRANSACTIONAL, encode_batch, has_valid_checksum, iter_batches, iter_records
from odradek.protocol.compression import Codec
from odradek.protocol.records import Record
from odradek.protocol.txn_marker import TxnMarker
from support.read_committed import visible_records
from support.steps import finished

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
TOPIC_ID = TopicId(bytes(range(16)))


class CountingRng:
    def __init__(self):
        self.drawn = 0

    def bytes(self, count):
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")

    def below(self, bound):
        self.drawn += 1
        return self.drawn % bound


def batch(*values, timestamps=None, key=b"k", codec=Codec.NONE, **header):
    times = timestamps or [NOW] * len(values)
    records = [
        Record(key=key, value=value, timestamp=time, offset=n)
        for n, (value, time) in enumerate(zip(values, times, strict=True))
    ]
    return memoryview(encode_batch(records, codec=codec, **header))


def keyed_batch(pairs, time=NOW, codec=Codec.NONE, **header):
    records = [Record(key=key, value=value, timestamp=time + n, offset=n) for n, (key, value) in enumerate(pairs)]
    return memoryview(encode_batch(records, codec=codec, **header))


class OnePartition:
    def __init__(self, disk, config):
        self.disk = disk
        self.config = config
        self.wall_ms = NOW
        self._load()
        self.log = self.logs.create_log(TP, TOPIC_ID, config, NOW)

    def _load(self):
        self.logs = LogDirectory(self.disk, CountingRng())
        self.logs.load(lambda _topic: self.config, self.wall_ms)
        self.log = self.logs.get(TP)

    def append(self, *values, leader_epoch=0, verification=None, **options):
        return self.log.appending.as_leader(batch(*values, **options), leader_epoch, self.wall_ms, verification)

    def append_in_transaction(self, *values, producer_id=1, epoch=0, sequence=0, verification=NOT_REQUIRED, **options):
        return self.append(
            *values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
            verification=verification,
            **options,
        )

    def end_transaction(self, *, committed, producer_id=1, epoch=0, coordinator_epoch=0, version=0):
        marker = TxnMarker(producer_id, epoch, coordinator_epoch, committed, version)
        return self.log.appending.marker(marker, 0, self.wall_ms)

    def commit(self, producer_id=1, **options):
        return self.end_transaction(committed=True, producer_id=producer_id, **options)

    def abort(self, producer_id=1, **options):
        return self.end_transaction(committed=False, producer_id=producer_id, **options)

    @property
    def stable(self):
        """The last stable offset when everything is committed."""
        return self.log.last_stable_offset(self.log.log_end_offset)

    def seen_committed(self, start=None, max_bytes=300, high_watermark=None):
        """Offset and value of each record that a consumer with read_committed gets, with fetches of any size."""
        log = self.log
        offset = log.log_start_offset if start is None else start
        end = log.last_stable_offset(log.log_end_offset if high_watermark is None else high_watermark)
        found = []
        while True:
            region, aborted = log.read_committed(offset, max_bytes, end, True)
            if region is None:
                return found
            data = region.read()
            region.release()
            assert [one.first_offset for one in aborted] == sorted(one.first_offset for one in aborted)
            listed = [(one.producer_id, one.first_offset) for one in aborted]
            found += [(r.offset, r.value) for r in visible_records(data, listed) if r.offset >= offset]
            offset = [header for header, _ in iter_batches(data)][-1].next_offset

    def transaction_state(self):
        """The open transactions, and the entries of all indexes of aborted ones."""
        known = self.log.known_producers(self.wall_ms).by_id
        open_here = {pid: one.transaction_start for pid, one in known.items() if one.transaction_start >= 0}
        aborted = [tuple(one) for segment in self.log.segments.in_order for one in segment.aborted.entries()]
        return open_here, aborted

    def put(self, *pairs, leader_epoch=0, verification=None, **options):
        """Append one batch of (key, value) pairs."""
        batch = keyed_batch(pairs, time=self.wall_ms, **options)
        return self.log.appending.as_leader(batch, leader_epoch, self.wall_ms, verification)

    def roll(self):
        """The next append begins a new segment. The current one must not be empty."""
        self.log.rolling.roll(self.wall_ms)

    def clean(self, committed=None, key_bytes_max=1 << 20, **plan):
        """Compact as the broker does, without its event loop. True if anything changed."""
        committed = self.log.log_end_offset if committed is None else committed
        self.log.syncing.whole()
        found = self.log.compacting.dirt(self.log.last_stable_offset(committed), self.wall_ms)
        if not found.dirty_bytes:
            return False
        plan = replace(self.log.compacting.plan(found, committed, self.wall_ms, key_bytes_max), **plan)
        return self.put_in_place(plan, finished(clean(self.disk, plan)))

    def put_in_place(self, plan, cleaned):
        self.logs.write_checkpoints()
        for replacement in cleaned.replacements:
            swap = self.log.compacting.begin_swap(plan, replacement)
            if swap is None:
                return False
            while self.log.compacting.step_swap():
                swap.sync()
            remove(swap.deleted)
        self.log.compacting.cleaned(plan, cleaned.end_offset)
        self.logs.write_checkpoints()
        return True

    def configure(self, **changes):
        self.config = replace(self.config, **changes)
        self.log.configure(self.config)

    def crash(self):
        """kill -9: written data stays, nothing is closed."""
        self._load()

    def restart(self):
        """A clean stop, and a start."""
        self.logs.close(broker_epoch=7)
        self._load()

    def bytes_of(self, suffix, base_offset=0):
        return self.disk.open(f"orders-0/{base_offset:020d}{suffix}")

    def names(self, suffix=""):
        return [name for name in self.disk.listdir("orders-0") if name.endswith(suffix)]

    def records(self, start=None, max_bytes=300):
        """Everything from an offset on, as a consumer reads it. Every checksum is verified."""
        offset = self.log.log_start_offset if start is None else start
        found = []
        while (region := self.log.read(offset, max_bytes, self.log.log_end_offset, True)) is not None:
            data = region.read()
            region.release()
            assert len(data) == region.length
            for header, view in iter_batches(data):
                assert has_valid_checksum(view)
                assert header.last_offset >= offset
                found += [(r.offset, r.value, r.timestamp) for r in iter_records(view) if r.offset >= offset]
                offset = header.next_offset
        return found

    def batches(self):
        offset = self.log.log_start_offset
        while (region := self.log.read(offset, 1 << 20, self.log.log_end_offset, True)) is not None:
            data = region.read()
            region.release()
            for header, view in iter_batches(data):
                assert has_valid_checksum(view)
                yield header, list(iter_records(view))
                offset = header.next_offset

    def rows(self):
        """(offset, key, value) of all records."""
        return [(record.offset, record.key, record.value) for _, records in self.batches() for record in records]

    def values(self, start=None):
        return [value for _, value, _ in self.records(start)]


SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)


@pytest.fixture
def make_partition():
    """Segments have one kilobyte by default."""
    return lambda disk=None, **options: OnePartition(disk or MemoryDisk(), replace(SMALL, **options))


@pytest.fixture
def partition(make_partition):
    return make_partition()


@pytest.fixture
def make_batch():
    return batch


@pytest.fixture
def now():
    return NOW
