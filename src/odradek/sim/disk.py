"""A simulated disk that loses unsynced data in a power cut, as a real one does.

Every file has the content the running process sees and the content that would survive a power cut; every name likewise.
`File.sync` makes content durable, `sync_dir` makes names durable, and nothing else does. A power cut keeps an arbitrary
subset of what was not synced, sector by sector for content and operation by operation for names, as far as causality
allows.

`kill` (the process dies, the machine lives) keeps everything. Handles opened before either fault are dead afterwards.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from odradek.base.invariants import invariant
from odradek.base.ports import ByteSource, Volume
from odradek.sim.inode import Directory, DiskKnobs, Inode, Node
from odradek.sim.loop import PowerCut


@dataclass(slots=True)
class _NameChange:
    """One atomic operation on names: a create or remove touches one, a rename two."""

    changes: list[tuple[Directory, str, Node | None]]
    # Two changes depend on each other when they touch the same name.
    keys: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = [(id(directory), name) for directory, name, _ in self.changes]

    def apply_durably(self) -> None:
        for directory, name, node in self.changes:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node


class SimDisk:
    """The disk of one machine. `mount` gives the Disk port to one incarnation of the process; faults outlive it."""

    def __init__(self, rng: Random, knobs: DiskKnobs) -> None:
        self.rng = rng
        self.knobs = knobs
        self.root = Directory()
        self.pending: list[_NameChange] = []
        self.mounted: MountedDisk | None = None
        self.faults = {"short write": 0, "write error": 0, "sync error": 0, "torn file": 0, "lost name": 0}
        # Whether it failed an operation of the process that has it mounted.
        self.disturbed = False
        self.sync_failed = False
        # There is no room for anything written.
        self.full = False

    def mount(self) -> MountedDisk:
        self.mounted = MountedDisk(self)
        self.disturbed = self.sync_failed = False
        return self.mounted

    def kill(self) -> None:
        """The process is gone, the page cache stays."""
        self._unmount()

    def power_cut(self) -> None:
        self._unmount()
        self._settle_names()
        for path, inode in self._walk(self.root, ""):
            before = inode.content
            inode.power_cut(self.rng, self.knobs)
            if inode.content != before and path:
                self.faults["torn file"] += 1

    def _unmount(self) -> None:
        if self.mounted is not None:
            self.mounted.dead = True
            self.mounted = None

    def _settle_names(self) -> None:
        lost: dict[tuple[int, str], bool] = {}
        for change in self.pending:
            if any(key in lost for key in change.keys) or self.rng.random() >= self.knobs.survival:
                lost.update(dict.fromkeys(change.keys, True))
                self.faults["lost name"] += 1
            else:
                change.apply_durably()
        self.pending.clear()
        self._revert_names(self.root)

    def _revert_names(self, directory: Directory) -> None:
        directory.names = dict(directory.durable)
        for name in sorted(directory.names):
            node = directory.names[name]
            node.parent, node.name = directory, name
            if isinstance(node, Directory):
                self._revert_names(node)

    def _walk(self, directory: Directory, path: str) -> Iterator[tuple[str, Inode]]:
        for name in sorted(directory.names):
            node = directory.names[name]
            if isinstance(node, Directory):
                yield from self._walk(node, f"{path}{name}/")
            elif isinstance(node, Inode):
                yield path + name, node

    # For checkers: what is there, seen from outside the process.

    def files(self) -> dict[str, bytes]:
        return {path: bytes(inode.content) for path, inode in self._walk(self.root, "")}

    def has_durable_name(self, path: str) -> bool:
        """Whether a power cut would leave what has this name."""
        parent, _, name = path.rpartition("/")
        changing = [(directory.path(), changed) for each in self.pending for directory, changed, _ in each.changes]
        return (parent, name) not in changing

    def change_names(self, changes: list[tuple[Directory, str, Node | None]]) -> None:
        for directory, name, node in changes:
            replaced = directory.names.pop(name, None)
            if replaced is not None:
                replaced.parent = None
            if node is not None:
                directory.names[name] = node
        # A rename has moved its node: the new place counts.
        for directory, name, node in changes:
            if node is not None:
                node.parent, node.name = directory, name
        self.pending.append(_NameChange(changes))

    def sync_names(self, directory: Directory) -> None:
        """Makes durable every pending change in `directory`, and those they build on."""
        wanted: dict[tuple[int, str], bool] = {}
        chosen = [False] * len(self.pending)
        for index in range(len(self.pending) - 1, -1, -1):
            change = self.pending[index]
            touches = any(touched is directory for touched, _, _ in change.changes)
            if touches or any(key in wanted for key in change.keys):
                chosen[index] = True
                wanted.update(dict.fromkeys(change.keys, True))
        for index, change in enumerate(self.pending):
            if chosen[index]:
                change.apply_durably()
        self.pending = [change for index, change in enumerate(self.pending) if not chosen[index]]


class MountedDisk:
    """The Disk port as one incarnation of the process sees it."""

    location = "simulated"
    shared = False

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.dead = False
        self.operations = 0
        # Called before each operation that changes something: where the nemesis cuts the power.
        self.before_change: Callable[[str], None] = lambda _what: None

    def alive(self) -> None:
        if self.dead:
            raise PowerCut

    def changing(self, what: str) -> None:
        self.alive()
        self.operations += 1
        self.before_change(what)
        self.alive()

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.alive()
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise _missing(path)
            self.changing(f"create {path}")
            node = Inode()
            self.disk.change_names([(directory, name, node)])
        if not isinstance(node, Inode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimFile(self, node)

    def exists(self, path: str) -> bool:
        self.alive()
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def listdir(self, path: str) -> list[str]:
        self.alive()
        return sorted(self._directory(path).names)

    def make_dir(self, path: str) -> None:
        self.changing(f"make {path}")
        directory = self.disk.root
        for name in _parts(path):
            node = directory.names.get(name)
            if node is None:
                node = Directory()
                self.disk.change_names([(directory, name, node)])
            if not isinstance(node, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        self.changing(f"rename {old} {new}")
        old_parent, old_name = self._parent(old)
        new_parent, new_name = self._parent(new)
        node = old_parent.names.get(old_name)
        if node is None:
            raise _missing(old)
        replaced = new_parent.names.get(new_name)
        if isinstance(replaced, Directory) and replaced.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        self.disk.change_names([(old_parent, old_name, None), (new_parent, new_name, node)])

    def remove(self, path: str) -> None:
        self.changing(f"remove {path}")
        directory, name = self._parent(path)
        if name not in directory.names:
            raise _missing(path)
        self.disk.change_names([(directory, name, None)])

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, Directory):
            for name in sorted(node.names):
                self.remove_tree(f"{path}/{name}")
        self.remove(path)

    def sync_dir(self, path: str) -> None:
        self.changing(f"sync names in {path or '.'}")
        directory = self._directory(path)
        if _happens(self.disk, self.disk.knobs.sync_error, "sync error"):
            self.disk.sync_failed = True
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        self.disk.sync_names(directory)

    def sync_all(self) -> None:
        self.changing("sync everything")
        for _, inode in self.disk._walk(self.disk.root, ""):
            inode.sync()
        for change in self.disk.pending:
            change.apply_durably()
        self.disk.pending.clear()

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def replace(self, path: str, data: bytes) -> None:
        aside = path + ".tmp"
        file = self.open(aside, create=True)
        file.truncate(0)
        written = 0
        while written < len(data):
            written += file.pwrite(data[written:], written)
        file.sync()
        file.close()
        self.rename(aside, path)
        self.sync_dir(path.rpartition("/")[0])

    def volume(self) -> Volume:
        return Volume()

    def _find(self, path: str) -> Node:
        node: Node = self.disk.root
        for name in _parts(path):
            if not isinstance(node, Directory) or name not in node.names:
                raise _missing(path)
            node = node.names[name]
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name


class SimFile:
    """As strict as the port allows: a closed or removed file that is not pinned cannot be used."""

    def __init__(self, mounted: MountedDisk, inode: Inode) -> None:
        self._mounted = mounted
        self._inode = inode
        self._closed = False
        self.pins = 0

    @property
    def path(self) -> str:
        return self._inode.path()

    def pread(self, length: int, position: int) -> bytes:
        self._usable()
        return bytes(memoryview(self._inode.content)[position : position + length])

    def pwrite(self, data: ByteSource, position: int) -> int:
        self._usable()
        self._mounted.changing(f"write {self.path}")
        disk = self._mounted.disk
        if _happens(disk, 1.0 if disk.full else disk.knobs.write_error, "write error"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        length = len(data)
        if length > 1 and _happens(disk, disk.knobs.short_write, "short write"):
            length = disk.rng.randrange(1, length)
        self._inode.write(bytes(data[:length]), position)
        return length

    def size(self) -> int:
        self._usable()
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        self._usable()
        self._mounted.changing(f"truncate {self.path}")
        self._inode.truncate(size)

    def sync(self) -> None:
        self._usable()
        self._mounted.changing(f"sync {self.path}")
        disk = self._mounted.disk
        if _happens(disk, disk.knobs.sync_error, "sync error"):
            self._inode.lose_dirty_pages()
            disk.sync_failed = True
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        self._inode.sync()

    def close(self) -> None:
        self._closed = True

    def fileno(self) -> int:
        return -1

    def pin(self) -> None:
        self._usable()
        self.pins += 1

    def unpin(self) -> None:
        invariant(self.pins > 0, f"{self.path} is unpinned more often than pinned")
        self.pins -= 1

    def _usable(self) -> None:
        self._mounted.alive()
        if not self.pins:
            invariant(not self._closed, f"{self.path} is used after it was closed")
            if self._inode.parent is None:
                # The real disk may have closed its descriptor to make room, and then finds no file to open again.
                raise _missing(self.path)


def _happens(disk: SimDisk, likelihood: float, what: str) -> bool:
    if likelihood and disk.rng.random() < likelihood:
        disk.faults[what] += 1
        disk.disturbed = True
        return True
    return False


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
