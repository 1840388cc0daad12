"""An asyncio loop on virtual time: one thread, no selector, every choice drawn from a seed.

Each callback belongs to a `Host` (one incarnation of a simulated machine or process). asyncio promises that
the callbacks of one loop run in the order they were scheduled, so a host's callbacks stay first in, first out; between
hosts nothing is promised and the seed chooses. A host that was cut off never runs again, not even its `finally` blocks.

Only callbacks, timers, futures and tasks are supported. All else in asyncio raises NotImplementedError: threads,
sockets, signals and subprocesses are not deterministic.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from odradek.sim.history import Violation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000
PPM = 1_000_000


class SimulationFailed(Exception):
    """The run broke a rule of the simulation itself: an unhandled exception, a livelock, a deadlock."""


class PowerCut(BaseException):
    """Unwinds whatever the host was in the middle of. Not an Exception: the code under test must not handle it."""


class Host:
    """One incarnation of a machine: owns its callbacks, so that a cut takes all of them and nothing else."""

    __slots__ = ("address", "alive", "listed", "name", "paused", "ready", "tasks_made", "tempo_ppm")

    def __init__(self, name: str, address: str = "", tempo_ppm: int = PPM) -> None:
        self.name = name
        # Where it is in the network; all incarnations of a machine are at one.
        self.address = address or name
        # How fast its clock and its timers run.
        self.tempo_ppm = tempo_ppm
        self.alive = True
        self.paused = False
        self.ready: deque[_Callback | _Timer] = deque()
        # True while the loop's list of runnable hosts holds this one.
        self.listed = False
        self.tasks_made = 0

    def __repr__(self) -> str:
        return f"<host {self.name}>"


class _Callback(asyncio.Handle):
    __slots__ = ("host",)
    host: Host


class _Timer(asyncio.TimerHandle):
    __slots__ = ("host",)
    host: Host


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(self, rng: Random, *, step_cost_ns: int = 0, busy_steps_max: int = 200_000) -> None:
        self._rng = rng
        self._step_cost_ns = step_cost_ns
        self._busy_steps_max = busy_steps_max
        self._busy_steps = 0
        self.now_ns = 0
        self.steps = 0
        self._timers: list[tuple[int, int, _Timer]] = []
        self._timers_made = 0
        self._runnable: list[Host] = []
        self.world = Host("world")
        self.current = self.world
        self._tasks: list[asyncio.Task[Any]] = []
        # Callbacks of hosts that were cut.
        self._undone: list[_Callback | _Timer] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._running = False
        self._closed = False
        self.failures: list[BaseException] = []
        self.story: Callable[[int, str, str], None] | None = None

    # Hosts

    @contextmanager
    def on(self, host: Host) -> Iterator[None]:
        """What is scheduled inside the block belongs to `host`."""
        before, self.current = self.current, host
        try:
            yield
        finally:
            self.current = before

    def cut(self, host: Host) -> None:
        """The host stops between two instructions. Its callbacks stay referenced until `close`, which ends them."""
        host.alive = False
        self._undone += host.ready
        host.ready.clear()

    def pause(self, host: Host) -> None:
        host.paused = True

    def resume(self, host: Host) -> None:
        host.paused = False
        if host.ready:
            self._list(host)

    def note(self, text: str) -> None:
        """One line of the run's trace; always part of the digest, even when it is not printed."""
        self._digest.update(text.encode())
        if self.story is not None:
            self.story(self.now_ns, self.current.name, text)

    def digest(self) -> str:
        return self._digest.copy().hexdigest()

    # Scheduling

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Callback(callback, args, self, context)
        handle.host = host = self.current
        self._make_ready(host, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        host = self.current
        when_ns = self.now_ns + _lasts_ns(round(delay * SECOND_NS), host)
        return self.call_at_ns(when_ns, host, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        host = self.current
        return self.call_at_ns(_lasts_ns(round(when * SECOND_NS), host), host, callback, *args, context=context)

    def call_at_ns(
        self, when_ns: int, host: Host, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        when_ns = max(when_ns, self.now_ns)
        timer = _Timer(when_ns / SECOND_NS, callback, args, self, context)
        timer.host = host
        if host.alive and not self._closed:
            self._timers_made += 1
            heapq.heappush(self._timers, (when_ns, self._timers_made, timer))
        return timer

    def time(self) -> float:
        """The time on the current host's clock."""
        return self.now_ns * self.current.tempo_ppm // PPM / SECOND_NS

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        host = self.current
        if name is None:
            # asyncio's own counter is global to the process and would leak into the digest.
            host.tasks_made += 1
            name = f"task-{host.tasks_made}"
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def _make_ready(self, host: Host, handle: _Callback | _Timer) -> None:
        if host.alive and not self._closed:
            host.ready.append(handle)
            if not host.listed and not host.paused:
                self._list(host)

    def _list(self, host: Host) -> None:
        if not host.listed:
            host.listed = True
            self._runnable.append(host)

    # Running

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        work: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not work.done():
                self._step()
                if self.failures:
                    raise self.failures[0]
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return work.result()

    def _step(self) -> None:
        timers = self._timers
        if not self._runnable:
            self._busy_steps = 0
            if not timers:
                raise SimulationFailed("deadlock: nothing is ready and no timer is set")
            self.now_ns = max(self.now_ns, timers[0][0])
        while timers and timers[0][0] <= self.now_ns:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                self._make_ready(timer.host, timer)
        if self._runnable:
            self._run_one(self._pick_host())

    def _pick_host(self) -> int:
        count = len(self._runnable)
        return self._rng.randrange(count) if count > 1 else 0

    def _run_one(self, index: int) -> None:
        host = self._runnable[index]
        if not host.ready or host.paused:
            self._runnable[index] = self._runnable[-1]
            self._runnable.pop()
            host.listed = False
            return
        handle = host.ready.popleft()
        if handle.cancelled():
            return
        self.steps += 1
        self._busy_steps += 1
        if self._busy_steps > self._busy_steps_max:
            raise SimulationFailed(f"livelock: {self._busy_steps} steps without a rest, last on {host.name}")
        self._digest.update(f"{host.name} {_name_of(handle)} {self.now_ns}\n".encode())
        self.current = host
        try:
            handle._run()
        except PowerCut:
            # A callback outside any task was cut in the middle; its host is already dead.
            pass
        finally:
            self.current = self.world
        self.now_ns += self._step_cost_ns

    def close(self) -> None:
        """Ends every task left over, in the order of creation, and ignores what their clean-up tries to do."""
        self._closed = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a task cut before its first step was never awaited
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close_quietly(task.get_coro())
        self._tasks.clear()
        self._undone.clear()
        self._timers.clear()
        self._runnable.clear()

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if self._closed or isinstance(failure, PowerCut):
            return
        if isinstance(failure, Violation):
            # A checker raised it while a node's callback ran; it is not the node's failure.
            self.failures.append(failure)
            return
        handle = context.get("handle")
        what = context["message"] if handle is None else f"an exception in {_name_of(handle)}"
        problem = SimulationFailed(f"on {self.current.name}: {what}: {failure!r}")
        problem.__cause__ = failure
        self.failures.append(problem)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's TimerHandle calls this; a cancelled timer is skipped when its time comes."""


def _lasts_ns(counted_ns: int, host: Host) -> int:
    """How long it takes until the host's clock has counted so much, rounded up: no timer fires early."""
    return -(-counted_ns * PPM // host.tempo_ppm)


def _name_of(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return getattr(callback, "__qualname__", None) or type(callback).__name__


def _close_quietly(coroutine: Any) -> None:
    with suppress(BaseException):  # a cut host may raise anything; it is ignored
        coroutine.close()
