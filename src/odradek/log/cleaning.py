"""One run of compaction over the sealed segments of a log, outside the event loop.

The run reads the part of the log that became dirty since the last run, as much of it as there is memory for keys. Then
it copies the remaining records of all segments up to there into new segments; it merges small ones. The new files lie
beside the old ones, with the suffix `.cleaned`, until `swap` puts them in place. Nothing here shares state with the log
that the event loop uses, and the input and output can be copied to another process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from odradek.base.ports import Disk
from odradek.base.steps import Steps
from odradek.log import safeguards
from odradek.log.compacted_transactions import CompactedTransactions
from odradek.log.compaction import Compaction
from odradek.log.folder import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_SUFFIXES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Folder,
    offset_name,
    write_whole,
)
from odradek.log.indexes import ActiveIndexes
from odradek.log.key_offsets import KeyOffsets
from odradek.log.producer import LastBatch
from odradek.log.scan import batches
from odradek.log.segment import RELATIVE_OFFSET_MAX
from odradek.log.transaction_index import TransactionIndex, TransactionIndexBroken
from odradek.log.transactions import AbortedTransaction
from odradek.protocol.batch import MAX_TIMESTAMP, MAX_TIMESTAMP_POSITION, ByteSource, unpacked
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_spans import record_spans

POSITION_MAX = 2**31 - 1
WRITE_BYTES = 1 << 20
STEP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentToClean:
    base_offset: int
    end_offset: int  # where the next segment begins
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    directory: str
    history: int  # of the log: shows whether it was truncated since
    segments: tuple[SegmentToClean, ...]  # from the log's first one on; all committed and durable
    dirty_from: int
    high_watermark: int
    wall_ms: int
    delete_retention_ms: int
    last_batches: Mapping[int, LastBatch | None]
    aborted_from: tuple[int, ...]  # the segments of the whole log that have an index of aborted transactions
    epoch_starts: frozenset[int]  # of leader epochs after epoch 0
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    key_bytes_max: int
    position_max: int = POSITION_MAX
    step_bytes: int = STEP_BYTES  # read and written before a pause

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    base_offset: int
    size: int
    has_aborted: bool  # it has an index of aborted transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The segments `new` replace the segments `old`. The first base offset stays the same."""

    old: tuple[int, ...]
    new: tuple[CleanedSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    end_offset: int  # everything before it is clean once every replacement is in place
    replacements: tuple[Replacement, ...]
    last_step_bytes: int

    def saved_bytes(self, plan: CleaningPlan) -> int:
        sizes = {segment.base_offset: segment.size for segment in plan.segments}
        gone = sum(sizes[base] for replacement in self.replacements for base in replacement.old)
        return gone - sum(segment.size for replacement in self.replacements for segment in replacement.new)


def clean(disk: Disk, plan: CleaningPlan) -> Steps[Cleaned]:
    """Slow. Each step yields the number of bytes read and written.

    Raises MalformedRecords when a batch of the log cannot be read, OSError when the disk fails.
    """
    folder = Folder(disk, plan.directory)
    for name in folder.names():
        if name.endswith(CLEANED):  # of an interrupted run; left here, recovery would undo a later swap because of it
            folder.remove(name)
    traffic = _Traffic(plan.step_bytes)
    aborted = _aborted(folder, plan)
    keys, end_offset = yield from _latest_of_keys(folder, plan, traffic, aborted)
    compaction = Compaction(
        keys=keys,
        end_offset=end_offset,
        high_watermark=plan.high_watermark,
        wall_ms=plan.wall_ms,
        delete_retention_ms=plan.delete_retention_ms,
        last_batches=plan.last_batches,
        epoch_starts=plan.epoch_starts,
        transactions=CompactedTransactions(aborted),
    )
    done: list[_Rewriting] = []
    try:
        for segment in plan.segments:
            if segment.base_offset >= end_offset:
                break
            if not done:
                done.append(_Rewriting(folder, plan, segment.base_offset, traffic))
            elif not done[-1].has_room_for(segment):
                done[-1].finish()
                done.append(_Rewriting(folder, plan, segment.base_offset, traffic))
            yield from done[-1].copy(segment, compaction)
        done[-1].finish()
    # When the caller abandons this generator, nothing is cleaned up here: the next run removes the files.
    except Exception:
        for rewriting in done:
            rewriting.discard()
        raise
    return Cleaned(
        end_offset=end_offset,
        replacements=tuple(rewriting.replacement() for rewriting in done if rewriting.changed),
        last_step_bytes=traffic.bytes,
    )


def discard(folder: Folder, replacement: Replacement) -> None:
    """Slow. Delete the new segments of a replacement that is not put in place."""
    for segment in replacement.new:
        _remove(folder, segment.base_offset)


class _Traffic:
    """The bytes read and written since the last pause."""

    __slots__ = ("_step_bytes", "bytes")

    def __init__(self, step_bytes: int) -> None:
        self._step_bytes = step_bytes
        self.bytes = 0

    @property
    def is_step(self) -> bool:
        return self.bytes >= self._step_bytes

    def taken(self) -> int:
        moved, self.bytes = self.bytes, 0
        return moved


def _aborted(folder: Folder, plan: CleaningPlan) -> list[AbortedTransaction]:
    """Markers may lie in segments after those to clean. Raises MalformedRecords."""
    found: list[AbortedTransaction] = []
    for base in plan.aborted_from:
        index = TransactionIndex(folder, base, partial(offset_name, base, TRANSACTION_INDEX), exists=True)
        try:
            found += index.entries()
        except TransactionIndexBroken as broken:
            raise MalformedRecords(str(broken)) from broken
        finally:
            index.close()
    return found


def _latest_of_keys(
    folder: Folder, plan: CleaningPlan, traffic: _Traffic, aborted: list[AbortedTransaction]
) -> Steps[tuple[KeyOffsets, int]]:
    """The latest offset of each key in the dirty part, and where that part ends.

    It ends where the memory for keys is full, or with the last segment.
    """
    keys = KeyOffsets(plan.key_bytes_max)
    dirty = [segment for segment in plan.segments if segment.end_offset > plan.dirty_from]
    begin = dirty[0].base_offset if dirty else 0
    transactions = CompactedTransactions(one for one in aborted if one.last_offset >= begin)
    for segment in dirty:
        file = folder.open(offset_name(segment.base_offset, LOG))
        try:
            for header, batch in batches(file, 0, segment.size):
                traffic.bytes += len(batch)
                if traffic.is_step:
                    yield traffic.taken()
                if header.is_control:
                    transactions.needs_marker(header, batch)
                    continue
                is_aborted = safeguards.drops_aborted(transactions.is_aborted(header))
                if header.last_offset < plan.dirty_from or is_aborted:
                    continue
                if keys.full:
                    return keys, header.base_offset
                for span in record_spans(unpacked(header, batch), header.records_count):
                    if span.key is not None:
                        keys.note(span.key, header.base_offset + span.offset_delta)
        finally:
            file.close()
    return keys, plan.segments[-1].end_offset


class _Rewriting:
    """The remaining records of adjacent segments, in one new segment, or in several if they do not fit."""

    def __init__(self, folder: Folder, plan: CleaningPlan, base_offset: int, traffic: _Traffic) -> None:
        self._folder = folder
        self._plan = plan
        self._traffic = traffic
        self._old: list[int] = []
        self._outputs = [_Output(folder, plan, base_offset)]
        self.changed = False

    def has_room_for(self, segment: SegmentToClean) -> bool:
        """Whether one more segment fits even if all of it stays: by size, indexes and relative offsets."""
        output = self._outputs[-1]
        return (
            output.size + segment.size <= self._plan.segment_bytes
            and output.index_bytes + _index_bytes(self._folder, segment) <= self._plan.segment_index_bytes
            and (segment.size == 0 or segment.end_offset - 1 - output.base_offset <= RELATIVE_OFFSET_MAX)
        )

    def copy(self, segment: SegmentToClean, compaction: Compaction) -> Iterator[int]:
        self.changed = self.changed or bool(self._old)
        self._old.append(segment.base_offset)
        file = self._folder.open(offset_name(segment.base_offset, LOG))
        try:
            for header, batch in batches(file, 0, segment.size):
                left = compaction.what_is_left(header, batch)
                self.changed = self.changed or left is not batch
                if left is not None:
                    self._add(left, header.base_offset, header.last_offset)
                self._outputs[-1].aborted += compaction.transactions.taken()
                self._traffic.bytes += len(batch) + (0 if left is None else len(left))
                if self._traffic.is_step:
                    yield self._traffic.taken()
        finally:
            file.close()

    def _add(self, batch: ByteSource, base_offset: int, last_offset: int) -> None:
        """A batch may be larger after it is compressed again, so it may need another segment."""
        output = self._outputs[-1]
        if output.size and not output.has_room(len(batch), last_offset):
            output = _Output(self._folder, self._plan, base_offset)
            self._outputs.append(output)
        output.add(batch, last_offset)

    def finish(self) -> None:
        """Make the output durable, or discard it when nothing changed."""
        if not self.changed:
            self.discard()
            return
        for output in self._outputs:
            output.finish()

    def replacement(self) -> Replacement:
        new = tuple(
            CleanedSegment(base_offset=output.base_offset, size=output.size, has_aborted=bool(output.aborted))
            for output in self._outputs
        )
        return Replacement(old=tuple(self._old), new=new)

    def discard(self) -> None:
        for output in self._outputs:
            output.close()
            _remove(self._folder, output.base_offset)


class _Output:
    def __init__(self, folder: Folder, plan: CleaningPlan, base_offset: int) -> None:
        self._folder = folder
        self._position_max = plan.position_max
        self._indexes = ActiveIndexes(base_offset, plan.index_interval_bytes)
        self._file = folder.create(offset_name(base_offset, LOG) + CLEANED)
        self._file.truncate(0)
        self._unwritten = bytearray()
        self._written = 0
        self.base_offset = base_offset
        self.aborted: list[AbortedTransaction] = []  # with markers in this segment

    @property
    def size(self) -> int:
        return self._written + len(self._unwritten)

    @property
    def index_bytes(self) -> int:
        return self._indexes.size_bytes

    def has_room(self, size: int, last_offset: int) -> bool:
        return self.size + size <= self._position_max and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def add(self, batch: ByteSource, last_offset: int) -> None:
        (max_timestamp,) = MAX_TIMESTAMP.unpack_from(batch, MAX_TIMESTAMP_POSITION)
        self._indexes.note(last_offset, self.size, max_timestamp)
        self._unwritten += batch
        if len(self._unwritten) >= WRITE_BYTES:
            self._write()

    def finish(self) -> None:
        self._write()
        safeguards.sync_before_swap(self._file)
        self._indexes.add_max_time()
        self._indexes.write(self._folder, CLEANED)
        names = [offset_name(self.base_offset, kind) + CLEANED for kind in (OFFSET_INDEX, TIME_INDEX)]
        if self.aborted:
            names.append(offset_name(self.base_offset, TRANSACTION_INDEX) + CLEANED)
            TransactionIndex(self._folder, self.base_offset, lambda: names[-1], exists=False).replace(self.aborted)
        for name in names:
            file = self._folder.open(name)
            safeguards.sync_before_swap(file)
            file.close()
        self._file.close()

    def close(self) -> None:
        self._file.close()

    def _write(self) -> None:
        write_whole(self._file, self._unwritten, self._written)
        self._written += len(self._unwritten)
        self._unwritten = bytearray()


def _index_bytes(folder: Folder, segment: SegmentToClean) -> int:
    """The size of the larger index. If both are missing, the segment size, which is an upper bound."""
    sizes = []
    for kind in (OFFSET_INDEX, TIME_INDEX):
        name = offset_name(segment.base_offset, kind)
        if folder.exists(name):
            file = folder.open(name)
            sizes.append(file.size())
            file.close()
    return max(sizes, default=segment.size)


def _remove(folder: Folder, base_offset: int) -> None:
    for kind in SEGMENT_SUFFIXES:
        name = offset_name(base_offset, kind) + CLEANED
        if folder.exists(name):
            folder.remove(name)
