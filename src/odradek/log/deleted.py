"""Segments that were removed from a log, and the removal of their files."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.log.content import Content
from odradek.log.folder import DELETED, Folder
from odradek.log.segment import Segment


@dataclass(eq=False, slots=True, kw_only=True)
class DeletedSegment:
    """Removed from the log, still on disk. Call `rename`, then after `file.delete.delay.ms` `remove`. Both are slow.

    Call them only after the log start offset that excludes it is durable. Otherwise a crash could leave a gap in the
    log. A log that restarts empty renames it earlier, because it needs the names, maybe while another thread renames.
    """

    folder: Folder
    segment: Segment
    names: tuple[str, ...]
    renamed: bool = False
    _renaming: threading.Lock = field(default_factory=threading.Lock)

    def rename(self) -> None:
        with self._renaming:
            if not self.renamed:
                for name in self.names:
                    with contextlib.suppress(FileNotFoundError):  # the whole topic was deleted meanwhile
                        self.folder.rename(name, name + DELETED)
                self.renamed = True

    def remove(self) -> None:
        self.segment.close()
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):
                self.folder.remove(name + DELETED)


class Expired:
    """The segments that one log removed and whose files may not be renamed yet."""

    __slots__ = ("_in_order",)

    def __init__(self) -> None:
        self._in_order: list[DeletedSegment] = []

    @property
    def on_disk(self) -> list[DeletedSegment]:
        return [deleted for deleted in self._in_order if not deleted.renamed]

    def add(self, deleted: list[DeletedSegment]) -> list[DeletedSegment]:
        self._in_order = [*self.on_disk, *deleted]
        return deleted

    def rename(self) -> None:
        """The log restarts empty: it needs the names, and recovery must not find these files as later segments."""
        for deleted in reversed(self.on_disk):
            deleted.rename()
        self._in_order = []


def remove(deleted: Sequence[DeletedSegment]) -> None:
    """Slow."""
    for segment in deleted:
        segment.remove()


def forget(content: Content, segment: Segment) -> DeletedSegment:
    """The files of a segment that leaves the log. Its producer snapshot goes with it."""
    names = [*segment.file_names(), *content.producers.forget_snapshot(segment.base_offset)]
    return DeletedSegment(folder=content.folder, segment=segment, names=tuple(names))
