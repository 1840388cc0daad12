"""The driver's end of the connections to running tasks: leases and orders go down, reports come up.

One thread serves all connections. A lease is granted only while the service itself holds one: see `membership`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from odradek.connect.tasks.leash import LINE_BYTES_MAX

_log = logging.getLogger("odradek.connect")

GRANT_EVERY_S = 0.5
HELLO_S = 10.0

Reported = Callable[[str, Mapping[str, object]], None]


class Leashes:
    """`reported` is called on this object's thread with the run and what it says. `may_grant`: the service's lease."""

    def __init__(self, host: str, reported: Reported, may_grant: Callable[[], bool]) -> None:
        self.token = secrets.token_hex(16)
        self._host = host
        self._reported = reported
        self._may_grant = may_grant
        self._loop = asyncio.new_event_loop()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        # By run.
        self._open: dict[str, asyncio.StreamWriter] = {}
        # Runs that were launched and have not connected yet, with the order to stop if there is one already.
        self._expected: dict[str, str | None] = {}
        self._address: Future[tuple[str, int]] = Future()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="connect-leashes", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return self._address.result(HELLO_S)

    def expect(self, run: str) -> None:
        self._loop.call_soon_threadsafe(self._expected.setdefault, run, None)

    def halt(self, run: str, why: str) -> None:
        self._loop.call_soon_threadsafe(self._halt, run, why)

    def forget(self, run: str) -> None:
        self._loop.call_soon_threadsafe(self._expected.pop, run, None)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._listen())
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._accepted, self._host, 0, limit=LINE_BYTES_MAX)
        self._address.set_result(server.sockets[0].getsockname()[:2])
        while not self._ended.is_set():
            if self._may_grant():
                for writer in self._open.values():
                    writer.write(b'{"lease":true}\n')
            try:
                async with asyncio.timeout(GRANT_EVERY_S):
                    await self._ended.wait()
            except TimeoutError:
                continue
        # A closed server of asyncio leaves the sockets open that it is just accepting.
        while accepting := asyncio.all_tasks() - {asyncio.current_task(), *self._connections}:
            await asyncio.gather(*accepting, return_exceptions=True)
        server.close()
        writers = list(self._connections.values())
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, *(each.wait_closed() for each in writers), return_exceptions=True)

    def _halt(self, run: str, why: str) -> None:
        if run in self._open:
            self._open[run].write(json.dumps({"stop": why}).encode() + b"\n")
        elif run in self._expected:
            self._expected[run] = why

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Closes each connection when its task ends, also if the task is cancelled before it began."""

        def ended(task: asyncio.Task[None]) -> None:
            del self._connections[task]
            writer.close()

        task = self._loop.create_task(self._connected(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(ended)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HELLO_S):
                hello = json.loads(await reader.readline())
            run = str(hello["run"])
            is_ours = hmac.compare_digest(str(hello["token"]), self.token)
        except (TimeoutError, ValueError, KeyError, TypeError, OSError):
            return
        if not is_ours or run not in self._expected:
            # Also a run that Spark started a second time after it lost the executor: its offsets are old.
            writer.write(b'{"stop":"this run is not expected"}\n')
            return
        await self._hold(run, reader, writer)

    async def _hold(self, run: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = self._expected.pop(run)
        self._open[run] = writer
        self._reported(run, {"connected": True})
        if order is not None:
            self._halt(run, order)
        elif self._may_grant():
            writer.write(b'{"lease":true}\n')
        try:
            while line := await reader.readline():
                self._reported(run, json.loads(line))
        except (OSError, ValueError) as broken:
            _log.debug("the connection of %s broke: %s", run, broken)
        finally:
            del self._open[run]
