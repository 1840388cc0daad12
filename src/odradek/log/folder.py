"""A partition's directory and the names of the files in it."""

from __future__ import annotations

from odradek.base.ports import Disk, File

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"


def offset_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offsets_by_suffix(names: list[str]) -> dict[str, list[int]]:
    """The offsets in file names, by suffix, in the order of the names."""
    found: dict[str, list[int]] = {}
    for name in names:
        stem, dot, kind = name.partition(".")
        if len(stem) == 20 and stem.isdecimal():
            found.setdefault(dot + kind, []).append(int(stem))
    return found


def write_whole(file: File, content: bytes | bytearray, position: int) -> None:
    """Write all of `content`, also when the kernel writes only a part of it per call."""
    while content:
        written = file.pwrite(content, position)
        position += written
        content = content[written:]


class Folder:
    """The directory of one log, shared by all its parts: to rename it, assign `path` once."""

    __slots__ = ("disk", "names_changed", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.names_changed = False  # names were added or removed since the directory was last synced

    def at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        return self.disk.listdir(self.path)

    def open(self, name: str) -> File:
        return self.disk.open(self.at(name))

    def create(self, name: str) -> File:
        self.names_changed = True
        return self.disk.open(self.at(name), create=True)

    def write(self, name: str, content: bytes | bytearray) -> None:
        """Write a whole small file and replace its old content. Not durable yet."""
        file = self.create(name)
        file.truncate(0)
        write_whole(file, content, 0)
        file.close()

    def exists(self, name: str) -> bool:
        return self.disk.exists(self.at(name))

    def rename(self, old: str, new: str) -> None:
        self.names_changed = True
        self.disk.rename(self.at(old), self.at(new))

    def remove(self, name: str) -> None:
        self.names_changed = True
        self.disk.remove(self.at(name))
