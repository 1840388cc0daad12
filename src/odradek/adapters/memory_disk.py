"""A data directory in memory: nothing survives the process. For `--memory` brokers and for tests."""

from __future__ import annotations

from odradek.base.ports import ByteSource, File, Volume

Tree = dict[str, "Tree | MemoryFile"]


class MemoryFile:
    """Stays readable after a rename or removal, so pins need no bookkeeping."""

    __slots__ = ("data", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = bytearray()

    def pread(self, length: int, position: int) -> bytes:
        # No memoryview: while one exists, another thread cannot append.
        return bytes(self.data[position : position + length])

    def pwrite(self, data: ByteSource, position: int) -> int:
        missing = position - len(self.data)
        if missing > 0:
            self.data += bytes(missing)
        self.data[position : position + len(data)] = data
        return len(data)

    def size(self) -> int:
        return len(self.data)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data += bytes(size - len(self.data))

    def sync(self) -> None: ...

    def close(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


class MemoryDisk:
    location = "memory"
    shared = False

    def __init__(self) -> None:
        self._root: Tree = {}

    def open(self, path: str, *, create: bool = False) -> File:
        folder, name = self._parent(path)
        found = folder.get(name)
        if found is None and create:
            found = folder[name] = MemoryFile(path)
        if not isinstance(found, MemoryFile):
            raise FileNotFoundError(f"no file {path}")
        return found

    def exists(self, path: str) -> bool:
        try:
            self._at(path)
        except FileNotFoundError:
            return False
        return True

    def listdir(self, path: str) -> list[str]:
        return sorted(self._folder(path))

    def make_dir(self, path: str) -> None:
        folder = self._root
        for name in _parts(path):
            below = folder.setdefault(name, {})
            if isinstance(below, MemoryFile):
                raise NotADirectoryError(f"{name} in {path} is a file")
            folder = below

    def rename(self, old: str, new: str) -> None:
        moved = self._at(old)
        target, new_name = self._parent(new)
        source, old_name = self._parent(old)
        del source[old_name]
        target[new_name] = moved
        _relabel(moved, new)

    def remove(self, path: str) -> None:
        folder, name = self._parent(path)
        if not isinstance(folder.get(name), MemoryFile):
            raise FileNotFoundError(f"no file {path}")
        del folder[name]

    def remove_tree(self, path: str) -> None:
        self._folder(path)
        parent, name = self._parent(path)
        del parent[name]

    def sync_dir(self, path: str) -> None:
        self._folder(path)

    def sync_all(self) -> None: ...

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def replace(self, path: str, data: bytes) -> None:
        folder, name = self._parent(path)
        file = folder[name] = MemoryFile(path)
        file.data += data

    def volume(self) -> Volume:
        return Volume()

    def _at(self, path: str) -> Tree | MemoryFile:
        found: Tree | MemoryFile = self._root
        for name in _parts(path):
            if isinstance(found, MemoryFile) or name not in found:
                raise FileNotFoundError(f"no {path}")
            found = found[name]
        return found

    def _folder(self, path: str) -> Tree:
        found = self._at(path)
        if isinstance(found, MemoryFile):
            raise NotADirectoryError(f"{path} is a file")
        return found

    def _parent(self, path: str) -> tuple[Tree, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name


def _parts(path: str) -> list[str]:
    return [] if path in ("", ".") else path.split("/")


def _relabel(node: Tree | MemoryFile, path: str) -> None:
    if isinstance(node, MemoryFile):
        node.path = path
        return
    for name, below in node.items():
        _relabel(below, f"{path}/{name}")
