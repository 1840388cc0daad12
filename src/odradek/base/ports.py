"""Interfaces to the outside: time, randomness, disk, network, background work.

Packages below `node` use the outside only through these ports. `adapters` has the real implementations, `sim` the
simulated ones. A port is passed to a constructor, never imported as a global.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from odradek.base.steps import Rest, Steps

T = TypeVar("T")

ByteSource = bytes | bytearray | memoryview


class Clock(Protocol):
    def monotonic_ms(self) -> int:
        """For timeouts and intervals; never decreases."""

    def monotonic_ns(self) -> int:
        """The same clock, for measuring."""

    def wall_ms(self) -> int:
        """For record timestamps and retention; may jump."""


class Rng(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""


class File(Protocol):
    """One file. All methods are plain calls; those marked *slow* belong in `Spawner.blocking`."""

    @property
    def path(self) -> str: ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def pwrite(self, data: ByteSource, position: int) -> int:
        """Returns the number of bytes written: it may be fewer than given, as in POSIX."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Slow. Content and size are durable when it returns. If it raises, they may never become durable."""

    def close(self) -> None: ...

    def fileno(self) -> int:
        """A descriptor for sendfile, or -1 without a kernel file."""

    def pin(self) -> None:
        """Keep the content readable, even after removal, until the matching `unpin`."""

    def unpin(self) -> None: ...


class Volume(NamedTuple):
    """The space of the file system of a data directory; -1 if unknown."""

    total_bytes: int = -1
    usable_bytes: int = -1


class Disk(Protocol):
    """One data directory. Paths are relative to it, with `/` between parts.

    A created, renamed or removed name is durable only after `sync_dir` of its directory.
    """

    @property
    def location(self) -> str:
        """The absolute path of the directory, or what stands for it where there is none."""

    @property
    def shared(self) -> bool:
        """Whether a copy of this object in another process sees the same files."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Sorted names, without `.` and `..`."""

    def make_dir(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces a file at `new`. Open files under `old` stay valid."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None:
        """Slow."""

    def sync_dir(self, path: str) -> None:
        """Slow."""

    def sync_all(self) -> None:
        """Slow. All content and all names are durable when it returns. Cheaper than syncing many files one by one."""

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: bytes) -> None:
        """Slow. Atomic and durable: writes a temporary file, syncs it, renames it, and syncs the directory."""

    def volume(self) -> Volume:
        """Slow. Raises OSError when the file system does not answer."""


class Region:
    """A range of a file that is being sent to a client.

    Pins its file from construction to `release`, so that retention cannot delete it while it is being sent.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        file.pin()
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def release(self) -> None:
        self.file.unpin()

    def read(self) -> bytes:
        return self.file.pread(self.length, self.position)


class Link(Protocol):
    """The write half of one connection. Keeps order; releases each Region once it is sent or the connection is lost."""

    def send(self, parts: Sequence[bytes | bytearray | Region]) -> None: ...

    def pump(self) -> None:
        """Continue sending; call it from the protocol's `resume_writing`."""

    def unsent_bytes(self) -> int: ...

    def lost(self) -> None:
        """Drop the queue of a lost connection; call it from `connection_lost`."""


class Listener(Protocol):
    @property
    def port(self) -> int: ...

    async def close(self) -> None:
        """Accept no more connections; existing ones stay open."""


ProtocolFactory = Callable[[], asyncio.BufferedProtocol]


class Net(Protocol):
    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener: ...

    async def connect(self, host: str, port: int, factory: ProtocolFactory) -> None: ...

    def link(self, transport: asyncio.Transport) -> Link: ...


class Spawner(Protocol):
    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in the background. An exception that escapes stops the node."""

    def blocking(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """Run a slow call off the event loop."""

    def apart(self, work: Callable[..., Steps[T]], *args: object, rest: Rest) -> Awaitable[T]:
        """Run a long computation off the event loop, and await `rest` after each step.

        The work, its arguments and its result are copied; a shared Disk may be among them. Cancelling the awaiting task
        ends the work.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    clock: Clock
    rng: Rng
    disk: Disk
    net: Net
    spawner: Spawner
