"""A real broker for tests: a process of its own, forked in milliseconds, the real wire protocol, a free port."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.node.config import NodeConfig
from odradek.node.process import NodeFailed
from odradek.testing.nursery import STOP, Order, Ready, receive, the_nursery

# A test should not wait for what only matters between machines.
QUICK: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
}
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0


class Embedded:
    """A broker that lives as long as a `with` block.

        with Embedded() as broker:
            Producer({"bootstrap.servers": broker.bootstrap_servers})

    Records are kept in memory, or under `data`, where a later Embedded finds them again. `config` takes Kafka's names.
    Warnings go to stderr; to read all that the broker logs, name a file as `log`.
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        port: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        log: Path | None = None,
    ) -> None:
        wanted = {
            **QUICK,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            **{key: _text(value) for key, value in (config or {}).items()},
        }
        NodeConfig.parse(wanted)
        self._order = Order(wanted, data and data.absolute(), log and log.absolute())
        self._channel: socket.socket | None = None
        self._ready: Ready | None = None

    @property
    def port(self) -> int:
        return self._running().port

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if self._channel is not None:
            raise RuntimeError("the embedded broker runs already; stop it first")
        self._channel = the_nursery().fork(self._order)
        self._ready = self._heard(self._channel, START_TIMEOUT_S, "start")

    def stop(self) -> None:
        """Cleanly, as SIGTERM would. Raises what made the broker fail, if it failed meanwhile."""
        if self._channel is None:
            return
        with suppress(BrokenPipeError):
            self._channel.sendall(STOP)
        self._heard(self._channel, STOP_TIMEOUT_S, "stop")
        self._forget()

    def kill(self) -> None:
        """As kill -9: nothing is written any more, nobody is told. `start` begins again with what is under `data`."""
        self._signal(signal.SIGKILL)
        self._forget()

    def pause(self) -> None:
        """It stands still until `resume`, its connections open: as a machine that swaps, or a long collection."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the embedded broker is not running; use it inside `with Embedded() as broker:`")
        return self._ready

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._running().pid, number)

    def _heard(self, channel: socket.socket, within_s: float, doing: str) -> Ready | None:
        """What the process says next."""
        channel.settimeout(within_s)
        try:
            said = receive(channel)
        except TimeoutError:
            said = TimeoutError(f"the embedded broker did not {doing} within {within_s:.0f} s")
        except EOFError:
            said = NodeFailed("the process of the embedded broker has died; what it said is on stderr")
        if isinstance(said, BaseException):
            self._forget()
            raise said
        answer: Ready | None = said
        return answer

    def _forget(self) -> None:
        """A process that still runs ends when it sees its channel closed."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._ready = None


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
