"""One node of an embedded cluster, seen from the test: a process that can be stopped, killed, paused, started again."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from typing import cast

from odradek.node.process import NodeFailed
from odradek.testing.nursery import Command, Done, Order, Ready, receive, send, the_nursery

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
ORDER_TIMEOUT_S = 30.0
HEARD_EVERY_S = 0.005


class EmbeddedNode:
    """A node with the same number, directory and port over all its processes."""

    def __init__(self, node_id: int, order: Order) -> None:
        self.node_id = node_id
        self._order = order
        self._channel: socket.socket | None = None
        self._ready: Ready | None = None
        self._paused = False
        self._walled_ports: frozenset[int] = frozenset()
        # Numbered, so that the answer to an old one is not taken for the answer to the last.
        self._orders = 0

    @property
    def is_running(self) -> bool:
        return self._ready is not None

    @property
    def is_paused(self) -> bool:
        return self._paused

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def port(self) -> int:
        return self._running().port

    def start(self) -> None:
        """Returns when clients are served."""
        self.begin()
        self.await_ready()

    def begin(self) -> None:
        """Start without waiting: nodes of a new cluster wait for each other."""
        if self._channel is not None:
            raise RuntimeError("the embedded broker runs already; stop it first")
        self._channel = the_nursery().fork(self._order)

    def await_ready(self) -> None:
        if self._channel is None:
            raise RuntimeError("the embedded broker was not started")
        said = self._heard(self._channel, START_TIMEOUT_S, "start")
        if not isinstance(said, Ready):
            self._forget()
            raise NodeFailed("the embedded broker stopped before it served anybody")
        self._ready = said
        if self._walled_ports:
            self.wall_off(self._walled_ports)

    def await_brokers(self, broker_ids: Collection[int]) -> None:
        """Those serve clients already; return when this one tells its clients of them."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not cast("frozenset[int]", self.obey("brokers")).issuperset(broker_ids):
            if time.monotonic() > deadline:
                raise NodeFailed(f"broker {self.node_id} did not hear of the others within {START_TIMEOUT_S:.0f} s")
            time.sleep(HEARD_EVERY_S)

    def stop(self) -> None:
        """Cleanly, as SIGTERM would. Raises what made the broker fail, if it failed meanwhile."""
        if self._channel is None:
            return
        if self._paused:
            self.resume()
        with suppress(BrokenPipeError):
            send(self._channel, Command(0, "stop"))
        while self._heard(self._channel, STOP_TIMEOUT_S, "stop") is not None:
            pass
        self._forget()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """As kill -9: nothing is written any more, nobody is told. `start` begins again with what is on disk."""
        self._running()
        self.abandon()

    def discard(self) -> None:
        """Kill it, since nobody wants its records. Raises what made it fail, if it failed meanwhile."""
        try:
            while self._channel is not None and select.select([self._channel], [], [], 0)[0]:
                self._heard(self._channel, ORDER_TIMEOUT_S, "answer")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Whatever it does, it is gone when this returns; one that has not said who it is goes by itself."""
        if self._channel is not None and self._ready is not None:
            with suppress(ProcessLookupError):
                self._signal(signal.SIGKILL)
            self._channel.settimeout(STOP_TIMEOUT_S)
            with suppress(ConnectionResetError):
                while self._channel.recv(4096):
                    pass
        self._forget()

    def pause(self) -> None:
        """It stands still until `resume`, its connections open: as a machine that swaps, or a long collection."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self._paused = False

    def wall_off(self, ports: Collection[int]) -> None:
        """From now on it reaches these ports of its peers no more, and all others. Also after it was started again."""
        self._walled_ports = frozenset(ports)
        if self._ready is not None:
            self.obey("walls", ports=sorted(self._walled_ports))

    def drop_connections(self) -> None:
        """Those to its clients and peers break, and may be made again at once."""
        self._running()
        self.obey("drop")

    def obey(self, order: str, **arguments: object) -> object:
        """Carry out an order; its answer. One that is paused obeys when it is resumed, before anything else."""
        if self._channel is None:
            raise RuntimeError("the embedded broker is not running")
        self._orders += 1
        send(self._channel, Command(self._orders, order, arguments))
        while not self._paused:
            said = self._heard(self._channel, ORDER_TIMEOUT_S, "answer")
            if isinstance(said, Done) and said.number == self._orders:
                return said.answer
        return None

    def _running(self) -> Ready:
        if self._ready is None:
            raise RuntimeError("the embedded broker is not running; use it inside `with Embedded() as broker:`")
        return self._ready

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._running().pid, number)

    def _heard(self, channel: socket.socket, within_s: float, doing: str) -> object:
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
        answer: object = said
        return answer

    def _forget(self) -> None:
        """A process that still runs ends when it sees its channel closed."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._ready = None
        self._paused = False
