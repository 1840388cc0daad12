"""The adapters of a real machine: disk, event loop, allocator settings."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.adapters.clock import SystemClock
from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.net import TcpNet
from odradek.adapters.rng import SystemRng
from odradek.adapters.spawner import AsyncioSpawner as MachineSpawner
from odradek.base.ids import BrokerId
from odradek.base.limits import MIB
from odradek.base.ports import Ports, Rng
from odradek.node.format import DirectoryIdentity, Formatting, format_directory

__all__ = ["DirectoryInUse", "MachineSpawner", "locked", "machine_ports", "new_event_loop", "tune_allocator"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class DirectoryInUse(OSError):
    """Two nodes on one directory would overwrite each other's files."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Uses uvloop if it is installed: small requests take a quarter less time."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@contextmanager
def machine_ports(directory: Path | None, spawner: MachineSpawner) -> Iterator[Ports]:
    """Without a directory, all data is in memory. Closes all files, even after a failure."""
    disk = MemoryDisk() if directory is None else OsDisk(str(directory))
    try:
        yield Ports(clock=SystemClock(), rng=SystemRng(), disk=disk, net=TcpNet(), spawner=spawner)
    finally:
        if isinstance(disk, OsDisk):
            disk.close()


@contextmanager
def locked(directory: Path | None) -> Iterator[None]:
    """Allows one node per data directory. The kernel releases the lock when the process ends, also after a crash."""
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryInUse(
                f"another node runs on {directory}; stop it, or choose another directory with --data"
            ) from None
        yield


def format_on_machine(directory: Path, node_id: BrokerId, formatting: Formatting) -> DirectoryIdentity:
    """Formats a directory before the first start of a cluster node."""
    with locked(directory):
        disk = OsDisk(str(directory))
        try:
            return format_directory(disk, node_id, formatting, SystemClock())
        finally:
            disk.close()


def machine_rng() -> Rng:
    return SystemRng()


def tune_allocator() -> None:
    """By default glibc maps and unmaps each megabyte-sized buffer: page faults make fetches 3 times slower."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(_M_MMAP_THRESHOLD, 64 * MIB)
            libc.mallopt(_M_TRIM_THRESHOLD, 128 * MIB)
