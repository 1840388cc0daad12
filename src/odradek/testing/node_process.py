"""One node of an embedded cluster, seen from the test: a process that can be stopped, killed, paused, restarted."""

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

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
ORDER_TIMEOUT_S = 120.0
HEARD_EVERY_S = 0.005


class EmbeddedNode:
    """A node. It keeps its id, directory and port when it is restarted as another process."""

    def __init__(self, node_id: int, order: Order) -> None:
        self.node_id = node_id
        self._order = order
        self._channel: socket.socket | None = None
        self._ready: Ready | None = None
        self._paused = False
        self._walled_ports: frozenset[int] = frozenset()
        # Orders are numbered, so that a late answer to an old order is not taken for the answer to the last.
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
            raise RuntimeError("the embedded broker is already running; stop it first")
        self._channel = the_nursery().fork(self._order)

    def await_ready(self) -> None:
        if self._channel is None:
            raise RuntimeError("the embedded broker was not started")
        said = self._heard(self._channel, START_TIMEOUT_S, "start")
        if not isinstance(said, Ready):
            self._forget()
            raise NodeFailed("the embedded broker stopped before it served clients")
        self._ready = said
        if self._walled_ports:
            self.wall_off(self._walled_ports)

    def await_brokers(self, broker_ids: Collection[int]) -> None:
        """Wait until this broker's metadata lists these brokers, which already serve clients."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not cast("frozenset[int]", self.obey("brokers")).issuperset(broker_ids):
            if time.monotonic() > deadline:
                raise NodeFailed(f"broker {self.node_id} did not learn of all brokers in {START_TIMEOUT_S:.0f} s")
            time.sleep(HEARD_EVERY_S)

    def stop(self) -> None:
        """Stop cleanly, as SIGTERM would. If the broker failed meanwhile, raises its exception."""
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
        """Kill the process, as kill -9 would: no clean shutdown. `start` continues with the data on disk."""
        self._running()
        self.abandon()

    def discard(self) -> None:
        """Kill the process, because its records are not needed. If it failed meanwhile, raises its exception."""
        try:
            while self._channel is not None and select.select([self._channel], [], [], 0)[0]:
                self._heard(self._channel, ORDER_TIMEOUT_S, "answer")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Kill the process and wait until it has ended. A process that is not ready yet ends by itself."""
        if self._channel is not None and self._ready is not None:
            with suppress(ProcessLookupError):
                self._signal(signal.SIGKILL)
            self._channel.settimeout(STOP_TIMEOUT_S)
            with suppress(ConnectionResetError):
                while self._channel.recv(4096):
                    pass
        self._forget()

    def pause(self) -> None:
        """Stop the node until `resume`, with open connections: like a swapping machine or a long GC pause."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self._paused = False

    def wall_off(self, ports: Collection[int]) -> None:
        """Block these ports of its peers and no others, from now on and after restarts."""
        self._walled_ports = frozenset(ports)
        if self._ready is not None:
            self.obey("walls", ports=sorted(self._walled_ports))

    def drop_connections(self) -> None:
        """Close all connections to clients and peers. They may reconnect at once."""
        self._running()
        self.obey("drop")

    def obey(self, order: str, **arguments: object) -> object:
        """Send an order to the node and return its answer. A paused node carries it out first when it is resumed."""
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
        """The next message from the process."""
        channel.settimeout(within_s)
        try:
            said = receive(channel)
        except TimeoutError:
            said = TimeoutError(f"the embedded broker did not {doing} within {within_s:.0f} s")
        except EOFError:
            said = NodeFailed("the process of the embedded broker has died; see its output on stderr")
        if isinstance(said, BaseException):
            self._forget()
            raise said
        answer: object = said
        return answer

    def _forget(self) -> None:
        """Close the channel. A process that is still running ends when its channel closes."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._ready = None
        self._paused = False
