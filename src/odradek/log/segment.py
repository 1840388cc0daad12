"""One segment of a log: a file of batches, and its sparse indexes.

Only the last segment of a log grows, and its indexes are in memory. The indexes of the others are on disk. Files are
read only when needed, so that opening a segment is cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import InvariantBroken
from odradek.base.ports import ByteSource, File
from odradek.log.config import INT64_MAX, LogConfig
from odradek.log.folder import LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, TRANSACTION_INDEX, Folder, offset_name
from odradek.log.indexes import ActiveIndexes, IndexBroken, IndexedBatch, IndexedTime, SealedIndexes
from odradek.log.scan import BatchSeen, batch_at, end_within, headers
from odradek.log.transaction_index import TransactionIndex
from odradek.protocol.batch import NO_TIMESTAMP

story = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

RELATIVE_OFFSET_MAX = 2**31 - 1
BOOKMARKS_MAX = 64
UNARMED = -1


class TornWrite(OSError):
    """Only a part was written: the disk is full or failing."""


class Segment:
    __slots__ = (
        "_active",
        "_bookmarks",
        "_folder",
        "_interval_bytes",
        "_max_time",
        "_sealed",
        "aborted",
        "base_offset",
        "created_ms",
        "file",
        "roll_bytes",
        "roll_timestamp",
        "roll_wall_ms",
        "size",
        "suffix",
    )

    def __init__(
        self,
        folder: Folder,
        base_offset: int,
        file: File,
        size: int,
        *,
        interval: int,
        wall_ms: int,
        has_aborted: bool = False,
    ) -> None:
        """`has_aborted`: there is an index of aborted transactions on disk."""
        self._folder = folder
        self._interval_bytes = interval
        self.base_offset = base_offset
        self.file = file
        self.size = size  # bytes of whole batches; a preallocated file is longer
        self.created_ms = wall_ms
        self.suffix = ""  # of its file names, while compaction swaps it in or out
        self._active: ActiveIndexes | None = None  # while the segment grows
        self._sealed: SealedIndexes | None = None
        self._max_time: IndexedTime | None = None  # of a sealed segment, once looked up
        self.aborted = TransactionIndex(folder, base_offset, partial(self._name, TRANSACTION_INDEX), exists=has_aborted)
        # Base offset -> position of the next batch after a read, so that the next fetch of that reader needs no search.
        # The batch may not be written yet.
        self._bookmarks: dict[int, int] = {}
        # The segment is rolled before a batch that would exceed these bytes or times.
        self.roll_bytes = UNARMED
        self.roll_timestamp = INT64_MAX
        self.roll_wall_ms = INT64_MAX

    @classmethod
    def create(cls, folder: Folder, base_offset: int, config: LogConfig, wall_ms: int) -> Segment:
        file = folder.create(offset_name(base_offset, LOG))
        # A crash may have left a file with this name.
        file.truncate(0)
        if config.preallocate:
            file.truncate(config.segment_bytes)
        segment = cls(folder, base_offset, file, 0, interval=config.index_interval_bytes, wall_ms=wall_ms)
        segment._active = ActiveIndexes(base_offset, config.index_interval_bytes)
        return segment

    # --- growing

    def arm(self, config: LogConfig, jitter_ms: int) -> None:
        """Set when to roll: by size, full indexes, record age, or the clock if the first batch has no timestamp."""
        self._interval_bytes = config.index_interval_bytes
        indexes = self._growing()
        indexes.interval_bytes = config.index_interval_bytes
        self.roll_bytes = 0 if indexes.full(config.segment_index_bytes) else config.segment_bytes
        self.roll_timestamp = self.roll_wall_ms = INT64_MAX
        first = next(headers(self.file, 0, self.size), None)
        if first is not None and first.max_timestamp >= 0:
            self.roll_timestamp = first.max_timestamp + config.roll_ms - jitter_ms
        elif first is not None:
            self.roll_wall_ms = self.created_ms + config.roll_ms - jitter_ms

    def write(self, batch: ByteSource, last_offset: int, max_timestamp: int) -> bool:
        """Append a batch. True when it got an index entry. Call `arm` before."""
        active = self._active
        if active is None:  # recovery would read bytes after the recovery point of a clean stop as records
            raise InvariantBroken(f"{self.file.path} is sealed and takes no appends")
        position = self.size
        size = len(batch)
        if self.file.pwrite(batch, position) != size:
            raise TornWrite(f"{self.file.path}: the batch at position {position} was written only in part")
        self.size = position + size
        return active.note(last_offset, position, max_timestamp)

    def seal(self) -> None:
        """End appends. The indexes are written to disk, but are not durable yet."""
        self.write_indexes()
        self._active = None
        self._bookmarks.clear()

    def write_indexes(self) -> None:
        """Write the indexes as for a closed log, with the largest timestamp as the last time entry."""
        indexes = self._growing()
        indexes.add_max_time()
        indexes.write(self._folder)
        self.trim()

    def trim(self) -> None:
        """Remove the bytes after the last batch: of a preallocated file, or of a write that failed."""
        if self.file.size() != self.size:
            self.file.truncate(self.size)

    def truncate_to(self, position: int) -> None:
        """Remove the batches from `position` on. The segment grows again from there."""
        self.size = position
        self.trim()
        self._bookmarks.clear()
        self.grow_with(self._built())

    def grow_with(self, indexes: ActiveIndexes) -> None:
        self._close_sealed()
        self._active = indexes
        self._max_time = None
        self.roll_bytes = UNARMED

    # --- reading

    def locate(self, offset: int) -> int | None:
        """The position of the first batch that ends at or after `offset`. None when all end before it."""
        position = self._bookmarks.get(offset)
        if position is not None:
            return position
        seen = self.find(offset)
        return None if seen is None else seen.position

    def find(self, offset: int) -> BatchSeen | None:
        """The first batch that ends at or after `offset`."""
        return self._trusting(self._find, offset)

    def batch_before(self, position: int) -> int:
        """The position of a batch that starts at or before `position`: near it, but not always the last one."""
        entry = self._trusting(self._indexed_before, position)
        return 0 if entry is None else entry.position

    def end_offset(self) -> int:
        """The offset after the last batch."""
        end_offset = self.base_offset
        for seen in headers(self.file, self.batch_before(self.size - 1), self.size):
            end_offset = seen.last_offset + 1
        return end_offset

    def cut(self, start: int, max_bytes: int) -> int:
        """The end of a batch between `start` and `start + max_bytes`: near the limit, but not always the last one.

        `start` itself when the first batch is larger.
        """
        indexed = self._trusting(self._indexed_between, start, start + max_bytes)
        if indexed is not None:
            self.bookmark(indexed.base_offset, indexed.position)
            return indexed.position
        end, next_base = end_within(self.file, start, self.size, max_bytes)
        if next_base is not None:
            self.bookmark(next_base, end)
        return end

    def batch_end(self, position: int) -> int:
        """The end position of the batch that starts at `position`."""
        seen = batch_at(self.file, position, self.size)
        if seen is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.file.path} has no batch at position {position}")
        return seen.end_position

    def bookmark(self, base_offset: int, position: int) -> None:
        if len(self._bookmarks) >= BOOKMARKS_MAX:
            del self._bookmarks[next(iter(self._bookmarks))]
        self._bookmarks[base_offset] = position

    def max_time(self) -> IndexedTime:
        """The largest timestamp (-1 when no record has one), and the last offset of the first batch with it."""
        active = self._active
        if active is not None:
            return IndexedTime(active.max_timestamp, active.max_timestamp_offset)
        if self._max_time is None:
            self._max_time = self._trusting(self._last_time)
        return self._max_time

    def time_position(self, timestamp: int) -> int:
        """A position before which all records are older than `timestamp`."""
        return self._trusting(self._time_position, timestamp)

    # --- files

    @property
    def grows(self) -> bool:
        """Whether its indexes are in memory, and not completely on disk."""
        return self._active is not None

    def indexes_full(self, limit_bytes: int) -> bool:
        return self._growing().full(limit_bytes)

    def index_files(self) -> list[File]:
        """The index files of a sealed segment."""
        files = [*self._trusting(self._on_disk).files()]
        return [*files, self.aborted.file] if self.aborted.exists else files

    def index_names(self) -> list[str]:
        names = [self._name(OFFSET_INDEX), self._name(TIME_INDEX)]
        return [*names, self.aborted.name] if self.aborted.exists else names

    def file_names(self) -> list[str]:
        return [name for kind in SEGMENT_SUFFIXES if self._folder.exists(name := self._name(kind))]

    def rename(self, suffix: str) -> None:
        """Rename its files, the .log file first. Open file handles stay valid."""
        for name in self.file_names():
            self._folder.rename(name, name.removesuffix(self.suffix) + suffix)
        self.suffix = suffix

    def _name(self, kind: str) -> str:
        return offset_name(self.base_offset, kind) + self.suffix

    def close(self) -> None:
        self.file.close()
        self.aborted.close()
        self._close_sealed()

    # --- indexes

    def _growing(self) -> ActiveIndexes:
        """The indexes in memory. Those of a segment opened from disk are loaded when it first grows."""
        if self._active is None:
            try:
                self.grow_with(self._loaded())
            except IndexBroken as broken:
                story.warning("%s: rebuilding the indexes: %s", self.file.path, broken)
                self.grow_with(self._built())
        return self._active  # type: ignore[return-value]

    def _loaded(self) -> ActiveIndexes:
        indexes = ActiveIndexes.load(self._folder, self.base_offset, self._interval_bytes)
        start = 0
        if indexes.offsets:
            entry = IndexedBatch(indexes.offsets[-1] + self.base_offset, indexes.positions[-1])
            start = self._pointed_to(entry).end_position
        for seen in headers(self.file, start, self.size):
            if indexes.note(seen.last_offset, seen.position, seen.max_timestamp):
                raise IndexBroken(f"the entry for position {seen.position} is missing")
        return indexes

    def _built(self) -> ActiveIndexes:
        indexes = ActiveIndexes(self.base_offset, self._interval_bytes)
        for seen in headers(self.file, 0, self.size):
            indexes.note(seen.last_offset, seen.position, seen.max_timestamp)
        return indexes

    def _trusting(self, search: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Trust the index until a batch contradicts it, then rebuild it once and search again."""
        try:
            return search(*args, **kwargs)
        except IndexBroken as broken:
            if self._active is None:
                self._rebuild(broken)
        try:
            return search(*args, **kwargs)
        except IndexBroken as broken:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.file.path}: {broken}") from broken

    def _rebuild(self, broken: IndexBroken) -> None:
        """Rebuild the indexes of a sealed segment."""
        story.warning("%s: rebuilding the indexes: %s", self.file.path, broken)
        indexes = self._built()
        indexes.add_max_time()
        # Durable at once: no later sync includes a segment that is durable already.
        indexes.replace(self._folder, self.suffix)
        # Only after the replacement: until now another thread could have opened the old files.
        self._close_sealed()

    def _close_sealed(self) -> None:
        if self._sealed is not None:
            self._sealed.close()
            self._sealed = None

    def _indexes(self) -> ActiveIndexes | SealedIndexes:
        active = self._active
        return self._on_disk() if active is None else active

    def _on_disk(self) -> SealedIndexes:
        if self._sealed is None:
            sealed = SealedIndexes(self._folder, self.base_offset, self.suffix)
            self._check_reach(sealed.last())
            self._sealed = sealed
        return self._sealed

    def _check_reach(self, last: IndexedBatch | None) -> None:
        """Detect a truncated index: its last entry is not close to the end of the segment."""
        start = 0 if last is None else self._pointed_to(last).position
        for seen in headers(self.file, start, self.size):
            if seen.position - start > self._interval_bytes:
                raise IndexBroken(f"the entry for position {seen.position} is missing")

    def _find(self, offset: int) -> BatchSeen | None:
        entry = self._indexes().floor(offset)
        start = end = 0 if entry is None else self._pointed_to(entry).position
        for seen in headers(self.file, start, self.size):
            if seen.last_offset >= offset:
                return seen
            if self._active is None and seen.position - start > self._interval_bytes:
                raise IndexBroken(f"the entry for position {seen.position} is missing")
            end = seen.end_position
        if end != self.size:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.file.path} has no batch at position {end}")
        return None

    def _indexed_before(self, position: int) -> BatchSeen | None:
        entry = self._indexes().floor_position(position)
        return None if entry is None else self._pointed_to(entry)

    def _indexed_between(self, start: int, end: int) -> BatchSeen | None:
        """The last indexed batch that starts after `start` and not after `end`."""
        entry = self._indexes().floor_position(end)
        return None if entry is None or entry.position <= start else self._pointed_to(entry)

    def _pointed_to(self, entry: IndexedBatch) -> BatchSeen:
        seen = batch_at(self.file, entry.position, self.size)
        if seen is None or seen.last_offset != entry.last_offset:
            raise IndexBroken(f"no batch at position {entry.position} ends with offset {entry.last_offset}")
        return seen

    def _last_time(self) -> IndexedTime:
        last = self._on_disk().last_time()
        if last is not None:
            self._check_time(last)
            return last
        first = next(headers(self.file, 0, self.size), None)
        if first is not None and first.max_timestamp >= 0:
            raise IndexBroken("the time index is empty")
        return IndexedTime(NO_TIMESTAMP, self.base_offset)

    def _time_position(self, timestamp: int) -> int:
        entry = self._indexes().floor_time(timestamp)
        return 0 if entry is None else self._check_time(entry)

    def _check_time(self, entry: IndexedTime) -> int:
        seen = self._find(entry.offset)
        if seen is None or (seen.last_offset, seen.max_timestamp) != (entry.offset, entry.timestamp):
            raise IndexBroken(f"the batch with offset {entry.offset} does not have timestamp {entry.timestamp}")
        return seen.position
