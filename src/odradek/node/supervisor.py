"""Runs several nodes on one machine, each as a process: starts them, prints their logs, stops them one after another.

Reports a node that dies with its exit status; the others continue. With `restart` it starts the node again, with a
longer pause after each failed start. Each node's stdin is a pipe of the supervisor: if the supervisor dies, they stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from odradek.node.local_cluster import LocalNode

Tell = Callable[[str], None]

LINE_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a node to stop before stopping the next one, and the pauses between restarts."""

    stop_s: float = 30.0
    restart_first_s: float = 1.0
    restart_last_s: float = 30.0


class Supervisor:
    def __init__(
        self,
        nodes: Sequence[LocalNode],
        *,
        command: Callable[[Path], Sequence[str]],
        tell: Tell,
        log: Callable[[int, str], None],
        restart: bool = False,
        patience: Patience | None = None,
        all_ready: Callable[[str], None] | None = None,
    ) -> None:
        """`all_ready` gets the addresses for clients once all nodes are ready."""
        self._command = command
        self._log = log
        self._members = [_Member(node, tell) for node in nodes]
        self._tell = tell
        self._restart = restart
        self._all_ready = all_ready
        self._patience = patience or Patience()
        self._stopping = asyncio.Event()
        # Set by `stop`, or when no node is left.
        self._over = asyncio.Event()

    async def run(self) -> bool:
        """Runs until `stop`, or until no node is left. Returns whether it was stopped and all nodes stopped cleanly."""
        lives = asyncio.gather(*(self._live(member) for member in self._members))
        everybody = asyncio.ensure_future(self._tell_when_all_are_ready())
        lives.add_done_callback(lambda _: self._over.set())
        try:
            await self._over.wait()
            await self._stop_one_after_another()
            await lives
        finally:
            everybody.cancel()
            for member in self._members:
                member.send(signal.SIGKILL)
        return self._stopping.is_set() and all(member.stopped_cleanly for member in self._members)

    def stop(self) -> None:
        """A second call kills the nodes without waiting."""
        if self._stopping.is_set():
            for member in self._members:
                member.send(signal.SIGKILL)
        self._stopping.set()
        self._over.set()

    async def _live(self, member: _Member) -> None:
        pause_s = self._patience.restart_first_s
        while not self._stopping.is_set():
            await self._start_and_listen(member)
            if self._stopping.is_set():
                return
            if not self._restart:
                self._tell(f"Restart it with: odradek node start --config {quote(str(member.node.properties))}")
                return
            if member.ready.is_set():
                pause_s = self._patience.restart_first_s
            self._tell(f"node {member.node.node_id} restarts in {pause_s:g} s")
            try:
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            except TimeoutError:
                pause_s = min(2 * pause_s, self._patience.restart_last_s)

    async def _start_and_listen(self, member: _Member) -> None:
        member.begins()
        process = await asyncio.create_subprocess_exec(
            *self._command(member.node.properties),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE_BYTES_MAX,
            # Ctrl-C at the terminal must reach only the supervisor, which stops the nodes in order.
            start_new_session=True,
        )
        member.began(process)
        if self._stopping.is_set():
            member.send(signal.SIGTERM)
        await asyncio.gather(
            self._hear(member, process.stdout, is_log=False),
            self._hear(member, process.stderr, is_log=True),
        )
        member.ended(await process.wait(), expected=self._stopping.is_set())

    async def _hear(self, member: _Member, stream: asyncio.StreamReader | None, *, is_log: bool) -> None:
        """The first line that is not a log line says that the node is ready."""
        if stream is None:
            return
        async for line in _lines(stream):
            if not is_log and not member.ready.is_set():
                member.ready.set()
                self._tell(f"node {member.node.node_id} is ready on {member.node.endpoints[0]}")
            elif is_log:
                self._log(member.node.node_id, line)
            else:
                self._tell(f"{member.node.node_id} | {line}")

    async def _tell_when_all_are_ready(self) -> None:
        for member in self._members:
            await member.ready.wait()
        servers = ",".join(str(member.node.clients) for member in self._members if member.node.clients)
        self._tell(f"Odradek is ready on {servers}. Ctrl-C stops it.")
        if self._all_ready is not None:
            self._all_ready(servers)

    async def _stop_one_after_another(self) -> None:
        """Each node hands over its leadership while the others still run."""
        for member in self._members:
            member.send(signal.SIGTERM)
            await member.gone_within(self._patience.stop_s)
        for member in self._members:
            member.send(signal.SIGKILL)


class _Member:
    """One node, across its restarts."""

    def __init__(self, node: LocalNode, tell: Tell) -> None:
        self.node = node
        self.ready = asyncio.Event()
        self.stopped_cleanly = True
        self._tell = tell
        self._process: Process | None = None
        self._gone = asyncio.Event()
        self._gone.set()

    def begins(self) -> None:
        self.ready.clear()
        self._gone.clear()

    def began(self, process: Process) -> None:
        self._process = process

    def ended(self, status: int, *, expected: bool) -> None:
        self._process = None
        self._gone.set()
        # SIGTERM itself ends a node that has not installed its handler yet.
        self.stopped_cleanly = expected and status in (0, -signal.SIGTERM)
        if not self.stopped_cleanly:
            self._tell(f"node {self.node.node_id} {_ending(status)}")

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            # Not through the process object: it would read the exit status itself, and asyncio's watcher would miss it.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def gone_within(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._gone.wait(), seconds)
        except TimeoutError:
            self._tell(f"node {self.node.node_id} has not stopped within {seconds:g} s")


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal.Signals(-status).name}"


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yields lines; splits lines that are too long."""
    while True:
        try:
            line = await stream.readuntil()
        except asyncio.IncompleteReadError as rest:
            line = rest.partial
        except asyncio.LimitOverrunError as long:
            line = await stream.read(long.consumed)
        if not line:
            return
        yield line.decode(errors="replace").rstrip("\r\n")
