"""Background work on asyncio: tasks whose failures are reported, threads for blocking calls, and a process for long
computations, which would hold the interpreter lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from odradek.base.steps import Finished, Rest, Steps

T = TypeVar("T")

BLOCKING_THREADS = 4


class AsyncioSpawner:
    """Belongs to the loop on which it was created. `on_failure` is called for each exception that escapes a task."""

    __slots__ = ("_apart", "_loop", "_on_failure", "_tasks", "_threads")

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_failure = on_failure
        # The loop itself has only weak references to tasks.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._threads = ThreadPoolExecutor(BLOCKING_THREADS, thread_name_prefix="odradek-blocking")
        self._apart = ThreadPoolExecutor(1, thread_name_prefix="odradek-apart")

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def blocking(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        return self._loop.run_in_executor(self._threads, call, *args)

    async def apart(self, work: Callable[..., Steps[T]], *args: object, rest: Rest) -> T:
        from odradek.adapters.other_process import OtherProcess  # with pickle: only for the first such work

        process = OtherProcess(work, args)
        try:
            while True:
                step = await self._loop.run_in_executor(self._apart, process.step)
                if isinstance(step, Finished):
                    return step.result
                await rest(step)
        except asyncio.CancelledError:
            process.kill()
            self._loop.run_in_executor(self._apart, process.close)
            raise

    async def close(self) -> None:
        """Cancel running tasks and wait for running blocking calls."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._apart.shutdown)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            self._on_failure(task.get_name(), failure)
