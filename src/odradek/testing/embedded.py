"""A real broker inside this process, for tests: its own thread and event loop, the real wire protocol, a free port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.node.build import Node
from odradek.node.config import NodeConfig
from odradek.node.machine import new_event_loop
from odradek.node.process import serve

# A test should not wait for what only matters between machines.
QUICK: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
}
START_TIMEOUT_S = 30.0


class Embedded:
    """A broker that lives as long as a `with` block.

        with Embedded() as broker:
            Producer({"bootstrap.servers": broker.bootstrap_servers})

    Records are kept in memory, or under `data`, where a later Embedded finds them again. `config` takes Kafka's names.
    """

    def __init__(
        self, *, data: Path | None = None, port: int = 0, config: Mapping[str, str | int | bool] | None = None
    ) -> None:
        self._data = data
        self._config = NodeConfig.parse(
            {
                **QUICK,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                **{key: _text(value) for key, value in (config or {}).items()},
            }
        )
        self._started = threading.Event()
        self._problem: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._node: Node | None = None

    @property
    def port(self) -> int:
        return self._running_node().port

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._started.clear()
        self._problem = None
        self._thread = threading.Thread(target=self._run, name="odradek-embedded", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the embedded broker did not start within {START_TIMEOUT_S:.0f} s")
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        if self._thread is None:
            return
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._thread = self._node = None
        if self._problem is not None:
            raise self._problem

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running_node(self) -> Node:
        if self._node is None:
            raise RuntimeError("the embedded broker is not running; use it inside `with Embedded() as broker:`")
        return self._node

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as problem:  # noqa: BLE001 crosses to the thread that owns the test
            self._problem = problem
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        await serve(self._config, self._data, self._ready, self._stopping)

    def _ready(self, node: Node) -> None:
        self._node = node
        self._started.set()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
