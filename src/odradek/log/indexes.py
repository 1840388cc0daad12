"""The sparse indexes of a segment: offset to position, and timestamp to offset.

Every `index.interval.bytes` of appended batches, the offset index gets one entry: last offset of a batch and position
of its start. If the largest timestamp grew, the time index gets one, too: that timestamp and the last offset of its
batch. A segment that is closed also gets its largest timestamp as the last entry. There is no checksum: readers compare
an entry with the batch it points to. A wrong index is rebuilt from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from odradek.base.ports import File
from odradek.log.folder import OFFSET_INDEX, TIME_INDEX, Folder, offset_name, write_whole
from odradek.protocol.batch import NO_TIMESTAMP

OFFSET_ENTRY = Struct(">II")  # offset - base offset, position
TIME_ENTRY = Struct(">qI")  # timestamp, offset - base offset
BLOCK_ENTRIES = 256
PROBES_KEPT_MAX = 256

Columns = tuple[Sequence[int], Sequence[int]]  # the first and the second of each entry


class IndexBroken(Exception):
    """The index file is missing, truncated, or not in order."""


class IndexedBatch(NamedTuple):
    last_offset: int
    position: int


class IndexedTime(NamedTuple):
    timestamp: int
    offset: int


class ActiveIndexes:
    """The indexes of the active segment, in memory; `write` appends the new entries to the files.

    Another thread may search while the owner adds. So of two parallel arrays, the searched array grows last.
    """

    __slots__ = (
        "_new_offset_entries",
        "_new_time_entries",
        "_written_offset_bytes",
        "_written_time_bytes",
        "base_offset",
        "interval_bytes",
        "last_position",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "positions",
        "time_offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.offsets = array("I")
        self.positions = array("I")
        self.times = array("q")
        self.time_offsets = array("I")
        self.last_position = 0  # of the last indexed batch
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset  # last offset of the first batch with this timestamp
        self._new_offset_entries = bytearray()
        self._new_time_entries = bytearray()
        self._written_offset_bytes = 0
        self._written_time_bytes = 0

    def note(self, last_offset: int, position: int, max_timestamp: int) -> bool:
        """Record an appended batch. True when it got an entry."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.last_position <= self.interval_bytes:
            return False
        self._add(last_offset, position)
        self.add_max_time()
        return True

    def add_max_time(self) -> None:
        """Called with every offset entry, and at the end when a segment is closed."""
        if self.max_timestamp > (self.times[-1] if self.times else NO_TIMESTAMP):
            self._add_time(self.max_timestamp, self.max_timestamp_offset)

    def _add(self, last_offset: int, position: int) -> None:
        relative = last_offset - self.base_offset
        self.positions.append(position)
        self.offsets.append(relative)
        self._new_offset_entries += OFFSET_ENTRY.pack(relative, position)
        self.last_position = position

    def _add_time(self, timestamp: int, offset: int) -> None:
        relative = offset - self.base_offset
        self.time_offsets.append(relative)
        self.times.append(timestamp)
        self._new_time_entries += TIME_ENTRY.pack(timestamp, relative)

    @property
    def size_bytes(self) -> int:
        """The size of the larger index."""
        return max(len(self.offsets) * OFFSET_ENTRY.size, len(self.times) * TIME_ENTRY.size)

    def full(self, limit_bytes: int) -> bool:
        """One time entry stays free: the last one holds the largest timestamp."""
        offset_entries, time_entries = limit_bytes // OFFSET_ENTRY.size, limit_bytes // TIME_ENTRY.size - 1
        return len(self.offsets) >= offset_entries or len(self.times) >= time_entries

    def floor(self, offset: int) -> IndexedBatch | None:
        """The last indexed batch that ends at or before `offset`."""
        slot = bisect_right(self.offsets, offset - self.base_offset) - 1
        return None if slot < 0 else IndexedBatch(self.offsets[slot] + self.base_offset, self.positions[slot])

    def floor_position(self, position: int) -> IndexedBatch | None:
        """The last indexed batch that starts at or before `position`."""
        slot = bisect_right(self.positions, position) - 1
        return None if slot < 0 else IndexedBatch(self.offsets[slot] + self.base_offset, self.positions[slot])

    def floor_time(self, timestamp: int) -> IndexedTime | None:
        """The last entry whose timestamp is not larger. No timestamp before its offset is larger either."""
        slot = bisect_right(self.times, timestamp) - 1
        return None if slot < 0 else IndexedTime(self.times[slot], self.time_offsets[slot] + self.base_offset)

    def write(self, folder: Folder, suffix: str = "") -> None:
        """Append the new entries to the files. Their names end with `suffix` while compaction swaps the segment."""
        self._written_offset_bytes = _append(
            folder,
            offset_name(self.base_offset, OFFSET_INDEX) + suffix,
            self._new_offset_entries,
            self._written_offset_bytes,
        )
        self._written_time_bytes = _append(
            folder,
            offset_name(self.base_offset, TIME_INDEX) + suffix,
            self._new_time_entries,
            self._written_time_bytes,
        )

    def replace(self, folder: Folder, suffix: str = "") -> None:
        """Slow. Durably replace both files.

        The time index first: a reader cannot detect that time entries are missing. It rebuilds both indexes when it
        finds the offset index broken.
        """
        for kind, entries in ((TIME_INDEX, self._new_time_entries), (OFFSET_INDEX, self._new_offset_entries)):
            folder.disk.replace(folder.at(offset_name(self.base_offset, kind) + suffix), bytes(entries))

    @classmethod
    def load(cls, folder: Folder, base_offset: int, interval_bytes: int) -> ActiveIndexes:
        """The indexes as on disk, without a closing time entry: the segment is open again.

        The caller must `note` the batches after the last entry.
        """
        indexes = cls(base_offset, interval_bytes)
        for relative, position in _entries(folder, offset_name(base_offset, OFFSET_INDEX), OFFSET_ENTRY):
            if indexes.offsets and (relative <= indexes.offsets[-1] or position <= indexes.positions[-1]):
                raise IndexBroken(f"the offset index of segment {base_offset} is not in ascending order")
            indexes._add(relative + base_offset, position)
        for timestamp, relative in _entries(folder, offset_name(base_offset, TIME_INDEX), TIME_ENTRY):
            if indexes.times and (timestamp <= indexes.times[-1] or relative <= indexes.time_offsets[-1]):
                raise IndexBroken(f"the time index of segment {base_offset} is not in ascending order")
            if indexes.offsets and relative <= indexes.offsets[-1]:
                indexes._add_time(timestamp, relative + base_offset)
                indexes.max_timestamp, indexes.max_timestamp_offset = timestamp, relative + base_offset
        indexes._written_offset_bytes = len(indexes._new_offset_entries)
        indexes._written_time_bytes = len(indexes._new_time_entries)
        indexes._new_offset_entries.clear()
        indexes._new_time_entries.clear()
        return indexes


class SealedIndexes:
    """The indexes of a sealed segment. They are searched on disk, so that they use little memory."""

    __slots__ = ("_offsets", "_times", "base_offset")

    def __init__(self, folder: Folder, base_offset: int, suffix: str = "") -> None:
        self.base_offset = base_offset
        try:
            self._offsets = SortedFile(
                folder.open(offset_name(base_offset, OFFSET_INDEX) + suffix), OFFSET_ENTRY, _offset_columns
            )
            self._times = SortedFile(
                folder.open(offset_name(base_offset, TIME_INDEX) + suffix), TIME_ENTRY, _time_columns
            )
        except FileNotFoundError as missing:
            raise IndexBroken(str(missing)) from missing

    @property
    def offset_entries(self) -> int:
        return self._offsets.count

    @property
    def time_entries(self) -> int:
        return self._times.count

    def floor(self, offset: int) -> IndexedBatch | None:
        found = self._offsets.floor(0, offset - self.base_offset)
        return None if found is None else IndexedBatch(found[0] + self.base_offset, found[1])

    def floor_position(self, position: int) -> IndexedBatch | None:
        found = self._offsets.floor(1, position)
        return None if found is None else IndexedBatch(found[0] + self.base_offset, found[1])

    def floor_time(self, timestamp: int) -> IndexedTime | None:
        found = self._times.floor(0, timestamp)
        return None if found is None else IndexedTime(found[0], found[1] + self.base_offset)

    def last(self) -> IndexedBatch | None:
        if not self._offsets.count:
            return None
        relative, position = self._offsets.entry(self._offsets.count - 1)
        return IndexedBatch(relative + self.base_offset, position)

    def last_time(self) -> IndexedTime | None:
        if not self._times.count:
            return None
        timestamp, relative = self._times.entry(self._times.count - 1)
        return IndexedTime(timestamp, relative + self.base_offset)

    def files(self) -> tuple[File, File]:
        return self._offsets.file, self._times.file

    def close(self) -> None:
        self._offsets.file.close()
        self._times.file.close()


class SortedFile:
    """A sorted file that no longer changes, searched with a few probes and one block read.

    The first probes are cached, because all searches share them. The last block is cached, because the next search of a
    sequential reader is close to it. Several threads may search.
    """

    __slots__ = ("_block", "_columns_of", "_entry", "_probed", "count", "file")

    def __init__(self, file: File, entry: Struct, columns_of: Callable[[bytes], Columns]) -> None:
        self.file = file
        self._entry = entry
        self._columns_of = columns_of
        size = file.size()
        if size % entry.size:
            raise IndexBroken(f"the size of {file.path} is not a multiple of the entry size")
        self.count = size // entry.size
        self._probed: dict[int, tuple[int, int]] = {}
        self._block: Columns = ((), ())

    def entry(self, slot: int) -> tuple[int, int]:
        first, second = self._entry.unpack(self._read(slot, slot + 1))
        return first, second

    def floor(self, field: int, wanted: int) -> tuple[int, int] | None:
        """The last entry whose `field` is not larger than `wanted`."""
        block = self._block
        column = block[field]
        if not column or not column[0] <= wanted < column[-1]:
            block = self._block = self._columns_of(self._read(*self._around(field, wanted)))
            column = block[field]
        slot = bisect_right(column, wanted) - 1
        return None if slot < 0 else (block[0][slot], block[1][slot])

    def _around(self, field: int, wanted: int) -> tuple[int, int]:
        """A range of a few entries that holds the wanted one, unless that is before the first entry."""
        low, high = 0, self.count  # the entry at `low` is not larger (or is the first); all from `high` on are larger
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self._probe(middle)[field] <= wanted:
                low = middle
            else:
                high = middle
        return low, high

    def _probe(self, slot: int) -> tuple[int, int]:
        known = self._probed.get(slot)
        if known is None:
            known = self.entry(slot)
            if len(self._probed) < PROBES_KEPT_MAX:
                self._probed[slot] = known
        return known

    def _read(self, low: int, high: int) -> bytes:
        size = self._entry.size
        entries = self.file.pread((high - low) * size, low * size)
        if len(entries) != (high - low) * size:
            raise IndexBroken(f"{self.file.path} became shorter while it was open")
        return entries


def _offset_columns(entries: bytes) -> Columns:
    values = array("I", entries)
    if sys.byteorder == "little":
        values.byteswap()
    return values[0::2], values[1::2]


def _time_columns(entries: bytes) -> Columns:
    both = list(TIME_ENTRY.iter_unpack(entries))
    return [timestamp for timestamp, _ in both], [offset for _, offset in both]


def _append(folder: Folder, name: str, entries: bytearray, written: int) -> int:
    file = folder.open(name) if folder.exists(name) else folder.create(name)
    write_whole(file, bytes(entries), written)
    written += len(entries)
    entries.clear()
    if file.size() != written:
        file.truncate(written)
    file.close()
    return written


def _entries(folder: Folder, name: str, entry: Struct) -> list[tuple[int, ...]]:
    try:
        content = folder.disk.read(folder.at(name))
    except FileNotFoundError as missing:
        raise IndexBroken(str(missing)) from missing
    if len(content) % entry.size:
        raise IndexBroken(f"the size of {name} is not a multiple of the entry size")
    return list(entry.iter_unpack(content))
