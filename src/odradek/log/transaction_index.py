"""The index of aborted transactions of one segment, in Kafka's format: a `.txnindex` file of fixed-size entries.

An entry is in the index of the segment that holds the marker. The file exists only if a transaction was aborted.
Entries are in the order of their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.base.ports import File
from odradek.log import safeguards
from odradek.log.folder import Folder, write_whole
from odradek.log.transactions import ABORTED_ENTRY, ABORTED_VERSION, AbortedTransaction

CHUNK_ENTRIES = 256


class TransactionIndexBroken(ValueError):
    """The index contradicts its segment. Build it again from the batches."""


class AbortedFound(NamedTuple):
    transactions: list[AbortedTransaction]
    complete: bool  # no later index has more of them


NONE_FOUND = AbortedFound([], complete=False)


class TransactionIndex:
    """Opens its file when it first needs it, and creates it for the first entry."""

    __slots__ = ("_base_offset", "_count", "_file", "_folder", "_name", "exists")

    def __init__(self, folder: Folder, base_offset: int, name: Callable[[], str], *, exists: bool) -> None:
        """`name`: the name of the file now. Compaction renames it."""
        self._folder = folder
        self._base_offset = base_offset
        self._name = name
        self._file: File | None = None
        self._count: int | None = None  # None until the entries on disk were checked
        self.exists = exists

    @property
    def name(self) -> str:
        return self._name()

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._folder.open(self.name) if self.exists else self._folder.create(self.name)
            self.exists = True
        return self._file

    # All of these raise TransactionIndexBroken.

    def add(self, aborted: AbortedTransaction) -> None:
        count = self._checked_count()
        write_whole(self.file, ABORTED_ENTRY.pack(ABORTED_VERSION, *aborted), count * ABORTED_ENTRY.size)
        self._count = count + 1

    def entries(self) -> list[AbortedTransaction]:
        return list(self._between(0, self._checked_count())) if self.exists else []

    def search(self, offset: int, end_offset: int) -> AbortedFound:
        """The aborted transactions that may have records between the two offsets."""
        if not self.exists:
            return NONE_FOUND
        found = []
        for aborted in self._between(self._first_ending_at(offset), self._checked_count()):
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return AbortedFound(found, complete=True)
        return AbortedFound(found, complete=False)

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose markers are at or after `offset`."""
        if self.exists and safeguards.truncates_transaction_index():
            kept = self._first_ending_at(offset)
            self.file.truncate(kept * ABORTED_ENTRY.size)
            self._count = kept

    # These do not.

    def replace(self, transactions: list[AbortedTransaction]) -> None:
        """Build the index again. Not durable yet."""
        self.close()
        if transactions or self.exists:
            content = b"".join(ABORTED_ENTRY.pack(ABORTED_VERSION, *aborted) for aborted in transactions)
            self._folder.write(self.name, content)
            self.exists = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._count = None

    def _checked_count(self) -> int:
        """The number of entries. Those that were on disk are checked once."""
        if self._count is None:
            size = self.file.size()
            count = size // ABORTED_ENTRY.size
            last_offset = self._base_offset - 1
            for version, _, first, last, _ in ABORTED_ENTRY.iter_unpack(self.file.pread(count * ABORTED_ENTRY.size, 0)):
                if version != ABORTED_VERSION or last <= last_offset or first > last:
                    raise TransactionIndexBroken(f"{self.file.path} has an invalid entry for the marker at {last}")
                last_offset = last
            if size % ABORTED_ENTRY.size:
                raise TransactionIndexBroken(f"{self.file.path} has {size} bytes, which are not whole entries")
            self._count = count
        return self._count

    def _first_ending_at(self, offset: int) -> int:
        """The number of the first entry whose marker is at or after `offset`."""
        low, high = 0, self._checked_count()
        while low < high:
            middle = (low + high) // 2
            if next(self._between(middle, middle + 1)).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _between(self, number: int, end: int) -> Iterator[AbortedTransaction]:
        """Reads only what the caller consumes, and a chunk more."""
        file = self.file
        while number < end:
            count = min(CHUNK_ENTRIES, end - number)
            chunk = file.pread(count * ABORTED_ENTRY.size, number * ABORTED_ENTRY.size)
            for _, *fields in ABORTED_ENTRY.iter_unpack(chunk):
                yield AbortedTransaction(*fields)
            number += count
