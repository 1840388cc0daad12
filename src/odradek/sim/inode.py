"""Files and directories with two states each: what the process sees, and what a power cut would leave.

A sector holds all writes to it up to some moment: the page cache writes back whole pages, so a later write never
survives without the earlier ones to the same sector. Between sectors, and between sizes and sectors, anything goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskKnobs:
    sector_bytes: int = 512
    # How likely a sector or a name operation that was never synced survives a power cut.
    survival: float = 0.5
    short_write: float = 0.0
    write_error: float = 0.0
    sync_error: float = 0.0


@dataclass(slots=True)
class _Write:
    position: int
    data: bytes


@dataclass(slots=True)
class _Truncate:
    size: int


class Node:
    """A file or a directory; `parent` and `name` say where the running process finds it, None once it was removed."""

    __slots__ = ("name", "parent")

    def __init__(self) -> None:
        self.parent: Directory | None = None
        self.name = ""

    def path(self) -> str:
        above = self.parent.path() if self.parent is not None else ""
        return f"{above}/{self.name}" if above else self.name


class Inode(Node):
    __slots__ = ("content", "durable", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.content = bytearray()
        self.durable = bytearray()
        # What the next sync will make durable, in order. Unless a sync has failed: durable + pending == content.
        self.pending: list[_Write | _Truncate] = []

    def write(self, data: bytes, position: int) -> None:
        _apply_write(self.content, data, position)
        self.pending.append(_Write(position, data))

    def truncate(self, size: int) -> None:
        _apply_truncate(self.content, size)
        self.pending.append(_Truncate(size))

    def sync(self) -> None:
        for operation in self.pending:
            if isinstance(operation, _Write):
                _apply_write(self.durable, operation.data, operation.position)
            else:
                _apply_truncate(self.durable, operation.size)
        self.pending.clear()

    def lose_dirty_pages(self) -> None:
        """A failed fsync marks pages as clean that never reached the disk, so the next fsync succeeds without them."""
        self.pending.clear()

    def power_cut(self, rng: Random, knobs: DiskKnobs) -> None:
        if self.pending:
            self.durable = self._survivors(rng, knobs)
            self.pending.clear()
        self.content = bytearray(self.durable)

    def _survivors(self, rng: Random, knobs: DiskKnobs) -> bytearray:
        """Each sector was last written back after some prefix of the writes to it; sizes after some prefix of all."""
        survived = bytearray(self.durable)
        last_metadata = _prefix(rng, knobs.survival, len(self.pending))
        writes: dict[int, int] = {}
        for operation in self.pending:
            if isinstance(operation, _Write):
                for sector in _sectors(operation, knobs.sector_bytes):
                    writes[sector] = writes.get(sector, 0) + 1
        kept = {sector: _prefix(rng, knobs.survival, count) for sector, count in writes.items()}
        for ordinal, operation in enumerate(self.pending):
            if isinstance(operation, _Truncate):
                if ordinal < last_metadata:
                    _apply_truncate(survived, operation.size)
                continue
            for sector in _sectors(operation, knobs.sector_bytes):
                if kept[sector] > 0:
                    kept[sector] -= 1
                    start = max(operation.position, sector * knobs.sector_bytes)
                    end = min(operation.position + len(operation.data), (sector + 1) * knobs.sector_bytes)
                    piece = operation.data[start - operation.position : end - operation.position]
                    _apply_write(survived, piece, start)
            if ordinal < last_metadata and rng.random() < knobs.survival:
                # The new size reached the disk and the data did not: a tail or a hole of zeros.
                end = operation.position + len(operation.data)
                if end > len(survived):
                    _apply_truncate(survived, end)
        return survived


def _sectors(write: _Write, sector_bytes: int) -> range:
    if not write.data:
        return range(0)
    return range(write.position // sector_bytes, (write.position + len(write.data) - 1) // sector_bytes + 1)


def _prefix(rng: Random, survival: float, count: int) -> int:
    """How many of `count` ordered operations survive: all, none, or any number between."""
    if rng.random() < survival:
        return count
    return rng.randrange(count + 1) if rng.random() < survival else 0


def _apply_write(content: bytearray, data: bytes, position: int) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _apply_truncate(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class Directory(Node):
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
