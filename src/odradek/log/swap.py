"""Replacing segments with their compacted ones, so that after a crash either all old or all new ones are used.

    X.log.cleaned               written and synced by `cleaning`
    X.log.cleaned -> .swap      from here on they are valid: a restart finishes the next steps
    X.log, Y.log  -> .deleted   and the log reads from the new ones
    X.log.swap    -> X.log

Files are renamed on the event loop, a few at a time. Each step is synced outside the loop before the next one. Kafka
uses the same steps and names, so either of the two finishes a swap of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from odradek.log import safeguards
from odradek.log.cleaning import CleanedSegment, Replacement
from odradek.log.deleted import DeletedSegment
from odradek.log.folder import CLEANED, DELETED, LOG, SEGMENT_SUFFIXES, SWAP, Folder, offset_name
from odradek.log.scan import headers
from odradek.log.segment import Segment
from odradek.log.segments import Segments


class Swap:
    def __init__(
        self,
        folder: Folder,
        segments: Segments,
        replacement: Replacement,
        *,
        interval: int,
        forget: Callable[[Segment], DeletedSegment],
    ) -> None:
        """`forget` is called with each old segment whose base offset no new segment has."""
        self._folder = folder
        self._segments = segments
        self._old = [segment for segment in segments.in_order if segment.base_offset in replacement.old]
        self._replacement = replacement
        self._interval = interval
        self._forget = forget
        self._new: list[Segment] = []
        # The last segment first: recovery then recognizes a segment without its predecessors.
        self._steps: list[Callable[[], None]] = [
            *(partial(self._count, cleaned) for cleaned in reversed(replacement.new)),
            self._replace,
            self._settle,
        ]
        self.deleted: list[DeletedSegment] = []  # their files are removed after a delay
        self._error: OSError | None = None

    def step(self) -> bool:
        """Rename some files. False when nothing is left to do. Call `sync` before the next step."""
        if self._error is not None:
            raise self._error
        if not self._steps:
            return False
        self._steps.pop(0)()
        return True

    def sync(self) -> None:
        """Slow; appends may continue. An error is kept: the next step raises it and the log fails."""
        try:
            safeguards.sync_swap(self._folder.disk, self._folder.path)
        except FileNotFoundError:
            pass  # the whole topic was deleted meanwhile
        except OSError as broken:
            self._error = broken

    def _count(self, cleaned: CleanedSegment) -> None:
        for kind in reversed(SEGMENT_SUFFIXES):
            name = offset_name(cleaned.base_offset, kind)
            if self._folder.exists(name + CLEANED):
                self._folder.rename(name + CLEANED, name + SWAP)

    def _replace(self) -> None:
        for cleaned in self._replacement.new:
            file = self._folder.open(offset_name(cleaned.base_offset, LOG) + SWAP)
            segment = Segment(
                self._folder,
                cleaned.base_offset,
                file,
                cleaned.size,
                interval=self._interval,
                wall_ms=self._old[-1].created_ms,
                has_aborted=cleaned.has_aborted,
            )
            segment.suffix = SWAP
            self._new.append(segment)
        self._segments.replace(self._old, self._new)
        begins = [segment.base_offset for segment in self._new]
        for segment in self._old:
            if segment.base_offset in begins:
                deleted = DeletedSegment(folder=self._folder, segment=segment, names=tuple(segment.file_names()))
            else:
                deleted = self._forget(segment)
            deleted.rename()
            segment.suffix = DELETED
            self.deleted.append(deleted)

    def _settle(self) -> None:
        for segment in self._new:
            segment.rename("")


def finish_swaps(folder: Folder, offsets: Mapping[str, list[int]]) -> bool:
    """Slow. After a crash, finish or undo swaps. True if there were any. `offsets`: from the folder's file names."""
    cleaned = [base for kind in SEGMENT_SUFFIXES for base in offsets.get(kind + CLEANED, [])]
    swaps = [base for kind in SEGMENT_SUFFIXES for base in offsets.get(kind + SWAP, [])]
    if not cleaned and not swaps:
        return False
    # Not all segments of this swap were renamed: none of them is valid, and no old segment was removed for them.
    counting = [base for base in swaps if not cleaned or base < min(cleaned)]
    for base in swaps:
        if base not in counting:
            _remove(folder, base, SWAP)
    for base in dict.fromkeys(cleaned):
        _remove(folder, base, CLEANED)
    replacing = [base for base in offsets.get(LOG + SWAP, []) if base in counting]
    if replacing:
        end = max(_end_of(folder, base) for base in replacing)
        for base in offsets.get(LOG, []):
            if base in replacing or min(replacing) <= base < end:
                _remove(folder, base, "")
        safeguards.sync_swap(folder.disk, folder.path)
    for base in dict.fromkeys(counting):
        for kind in SEGMENT_SUFFIXES:
            name = offset_name(base, kind)
            if folder.exists(name + SWAP):
                folder.rename(name + SWAP, name)
    safeguards.sync_swap(folder.disk, folder.path)
    return True


def _end_of(folder: Folder, base: int) -> int:
    file = folder.open(offset_name(base, LOG) + SWAP)
    end = base
    for seen in headers(file, 0, file.size()):
        end = seen.last_offset + 1
    file.close()
    return end


def _remove(folder: Folder, base: int, suffix: str) -> None:
    for kind in SEGMENT_SUFFIXES:
        name = offset_name(base, kind) + suffix
        if folder.exists(name):
            folder.remove(name)
