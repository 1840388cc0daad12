"""The real disk: one data directory with a limit on open descriptors.

A File may be used from any thread. Its descriptor is opened at the first use. While it is not in use it may be closed,
the least recently used first; a pinned File keeps its descriptor. After a rename of a file or a directory, its Files
stay valid. After a removal, pinned Files stay readable.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import threading
from collections import OrderedDict

from odradek.base.ports import ByteSource, File, Volume

_SYNCFS = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def _sync_path(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class OsFile:
    __slots__ = ("_disk", "closed", "fd", "folder", "name", "recent", "users")

    def __init__(self, disk: OsDisk, folder: _Folder, name: str) -> None:
        self._disk = disk
        self.folder = folder
        self.name = name
        self.fd = -1
        self.recent = False
        self.closed = False
        # One element per pin and per running call. A list, because append and pop are atomic and need no lock: a user
        # first appends, then reads the descriptor; an eviction first hides the descriptor, then looks for users. So at
        # least one of the two sees the other.
        self.users: list[None] = []

    @property
    def path(self) -> str:
        return self.folder.path_of(self.name)

    def pread(self, length: int, position: int) -> bytes:
        self.users.append(None)
        try:
            fd = self.fd
            if fd < 0:
                fd = self._disk.descriptor(self)
            else:
                self.recent = True
            return os.pread(fd, length, position)
        finally:
            self._leave()

    def pwrite(self, data: ByteSource, position: int) -> int:
        self.users.append(None)
        try:
            fd = self.fd
            if fd < 0:
                fd = self._disk.descriptor(self)
            else:
                self.recent = True
            return os.pwrite(fd, data, position)
        finally:
            self._leave()

    def size(self) -> int:
        fd = self.fd
        if fd < 0 and not self.users:
            return os.stat(self._disk.absolute(self.path)).st_size
        self.pin()
        try:
            return os.fstat(self.fd).st_size
        finally:
            self.unpin()

    def truncate(self, size: int) -> None:
        self.pin()
        try:
            os.ftruncate(self.fd, size)
        finally:
            self.unpin()

    def sync(self) -> None:
        self.pin()
        try:
            os.fsync(self.fd)
        finally:
            self.unpin()

    def close(self) -> None:
        self.closed = True
        if not self.users:
            self._disk.forget(self)

    def fileno(self) -> int:
        return self.fd if self.fd >= 0 else self._disk.descriptor(self)

    def pin(self) -> None:
        self.users.append(None)
        if self.fd < 0:
            try:
                self._disk.descriptor(self)
            except OSError:
                self.users.pop()
                raise
        else:
            self.recent = True

    def unpin(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self.users.pop()
        if self.closed and not self.users:
            self._disk.forget(self)


class _Folder:
    """A directory with open Files somewhere below; a rename is one move in this tree."""

    __slots__ = ("files", "folders", "name", "parent")

    def __init__(self, parent: _Folder | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.folders: dict[str, _Folder] = {}
        self.files: dict[str, list[OsFile]] = {}

    def path_of(self, name: str) -> str:
        folder: _Folder | None = self
        while folder is not None and folder.name:
            name = f"{folder.name}/{name}"
            folder = folder.parent
        return name

    def close(self) -> None:
        for folder in self.folders.values():
            folder.close()
        for file in [file for files in self.files.values() for file in files]:
            file.close()

    def below(self, name: str) -> _Folder:
        folder = self.folders.get(name)
        if folder is None:
            folder = self.folders[name] = _Folder(self, name)
        return folder


class OsDisk:
    """`descriptors` limits the open files; by default half of the process limit, the rest is for sockets."""

    def __init__(self, root: str, *, descriptors: int | None = None) -> None:
        self._root = os.path.abspath(root)
        self._capacity = descriptors or max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._unlooked = 0  # the number of files to open before the next search for files to close
        self._lock = threading.RLock()
        self._replacing = threading.Lock()  # two calls at once would use the same temporary file
        self._tree = _Folder(None, "")
        self._open: OrderedDict[OsFile, None] = OrderedDict()  # files with a descriptor, roughly by age
        os.makedirs(self._root, exist_ok=True)

    def __reduce__(self) -> tuple[type[OsDisk], tuple[str]]:
        return OsDisk, (self._root,)

    @property
    def location(self) -> str:
        return self._root

    @property
    def shared(self) -> bool:
        return True

    def absolute(self, path: str) -> str:
        return self._root if path in ("", ".") else f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> File:
        folder_path, _, name = path.rpartition("/")
        with self._lock:
            folder = self._folder(folder_path)
            file = OsFile(self, folder, name)
            if create:
                self._attach(file, self._open_descriptor(self.absolute(path), os.O_RDWR | os.O_CREAT))
            elif not os.path.isfile(self.absolute(path)):
                raise FileNotFoundError(f"no file {path}")
            folder.files.setdefault(name, []).append(file)
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(self.absolute(path))

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(self.absolute(path)))

    def make_dir(self, path: str) -> None:
        os.makedirs(self.absolute(path), exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        old_parent, _, old_name = old.rpartition("/")
        new_parent, _, new_name = new.rpartition("/")
        with self._lock:
            os.rename(self.absolute(old), self.absolute(new))
            source, target = self._folder(old_parent), self._folder(new_parent)
            for replaced in target.files.pop(new_name, ()):
                replaced.close()
            for file in source.files.pop(old_name, ()):
                file.folder, file.name = target, new_name
                target.files.setdefault(new_name, []).append(file)
            moved = source.folders.pop(old_name, None)
            if moved is not None:
                moved.parent, moved.name = target, new_name
                target.folders[new_name] = moved

    def remove(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        with self._lock:
            os.unlink(self.absolute(path))
            for file in self._folder(parent).files.pop(name, ()):
                file.close()

    def remove_tree(self, path: str) -> None:
        import shutil  # takes 2 ms, and most starts remove nothing

        parent, _, name = path.rpartition("/")
        shutil.rmtree(self.absolute(path))
        with self._lock:
            gone = self._folder(parent).folders.pop(name, None)
            if gone is not None:
                gone.close()

    def sync_dir(self, path: str) -> None:
        fd = self._open_descriptor(self.absolute(path), os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self) -> None:
        """One system call (syncfs) if the kernel has it; otherwise a walk over all files."""
        if _SYNCFS is None:
            for folder, _, names in os.walk(self._root):
                for path in [*(f"{folder}/{name}" for name in names), folder]:
                    _sync_path(path)
            return
        fd = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _SYNCFS(fd) != 0:
                failure = ctypes.get_errno()
                raise OSError(failure, os.strerror(failure), self._root)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        with open(self.absolute(path), "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes) -> None:
        aside = self.absolute(path) + ".tmp"
        with self._replacing:
            try:
                with open(aside, "wb", opener=self._open_descriptor) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                # On a full disk, a partly written temporary file would take the remaining space.
                with contextlib.suppress(OSError):
                    os.remove(aside)
                raise
            os.rename(aside, self.absolute(path))
            self.sync_dir(path.rpartition("/")[0])

    def volume(self) -> Volume:
        room = os.statvfs(self._root)
        return Volume(room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize)

    def close(self) -> None:
        """Closes all descriptors. The disk must not be used any more."""
        with self._lock:
            self._tree.close()

    def open_descriptors(self) -> int:
        return len(self._open)

    def descriptor(self, file: OsFile) -> int:
        """The file's descriptor; opens it if needed. The caller has entered `file.users`."""
        with self._lock:
            if file.fd < 0:
                self._attach(file, self._open_descriptor(self.absolute(file.path), os.O_RDWR))
            return file.fd

    def forget(self, file: OsFile) -> None:
        """Closes the descriptor of a closed file. If a new user has entered, that user closes it later."""
        with self._lock:
            fd, file.fd = file.fd, -1
            if file.users:
                file.fd = fd
                return
            if fd >= 0:
                del self._open[file]
                os.close(fd)
            siblings = file.folder.files.get(file.name, [])
            if file in siblings:
                siblings.remove(file)
            if not siblings:
                file.folder.files.pop(file.name, None)

    def _open_descriptor(self, absolute: str, flags: int) -> int:
        """If sockets have taken the process's descriptors, closes another file: a log must not fail for that."""
        while True:
            try:
                return os.open(absolute, flags | os.O_CLOEXEC, 0o644)
            except OSError as refused:
                with self._lock:
                    open_files = len(self._open)
                    if refused.errno != errno.EMFILE or open_files == 0:
                        raise
                    self._evict(open_files - 1)
                    if len(self._open) == open_files:
                        raise

    def _attach(self, file: OsFile, fd: int) -> None:
        file.fd = fd
        file.recent = False
        self._open[file] = None
        self._unlooked -= 1
        if len(self._open) > self._capacity and self._unlooked <= 0:
            self._evict(self._capacity)
            left = len(self._open)
            # Files in use stay open; the next search waits, so that not every open file causes one.
            self._unlooked = 1 + left // 4 if left > self._capacity else 0

    def _evict(self, capacity: int) -> None:
        """Close the oldest files that are not in use and were not used since the last search."""
        for _ in range(2 * len(self._open)):
            if len(self._open) <= capacity:
                return
            victim, _ = self._open.popitem(last=False)
            if victim.recent:
                victim.recent = False
            else:
                fd, victim.fd = victim.fd, -1
                if not victim.users:
                    os.close(fd)
                    continue
                victim.fd = fd
            self._open[victim] = None

    def _folder(self, path: str) -> _Folder:
        folder = self._tree
        if path:
            for name in path.split("/"):
                folder = folder.below(name)
        return folder
