"""Forks embedded brokers in milliseconds, from a process that has imported everything.

They are not threads of the test, because the garbage collector runs on any thread that allocates. It could destroy a
client on the broker's thread, and the client would wait for an answer of that broker. Also, a process can be killed.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from odradek.base.ports import Ports
from odradek.node.build import Node
from odradek.node.config import NodeConfig
from odradek.node.logs import log_to, log_to_stderr
from odradek.node.machine import new_event_loop
from odradek.node.process import NodeFailed, serve
from odradek.testing.faults import Faults
from odradek.testing.walls import WalledNet

ORDER_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Order:
    """An order for a node: its config, its data directory, its log file, and the ports of its peers."""

    config: Mapping[str, str]
    directory: Path | None
    log: Path | None
    peer_ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """The first message of a node, or an exception if it did not start. Its last message is None or an exception."""

    pid: int
    port: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command to a running node: `stop`, `walls`, `drop`, `brokers`, or an order to its `Faults`."""

    number: int
    order: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """The node has carried out the command with this number; its answer."""

    number: int
    answer: object = None


class Nursery:
    """The process that forks nodes, seen from the tests. It and its nodes end when the test process ends."""

    def __init__(self) -> None:
        orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 ourselves
                [sys.executable, "-c", f"from {__name__} import serve_orders; serve_orders({theirs.fileno()})"],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # Ctrl-C in the terminal must reach only the tests; they stop their nodes.
                start_new_session=True,
            )
        self._orders = orders
        atexit.register(self.close)

    def fork(self, order: Order) -> socket.socket:
        """Start a node. Returns the socket for its messages and for commands to it."""
        ours, theirs = socket.socketpair()
        content = pickle.dumps(order)
        if len(content) > ORDER_BYTES_MAX:
            raise ValueError(f"the configuration has {len(content)} bytes; the maximum is {ORDER_BYTES_MAX}")
        with theirs:
            socket.send_fds(self._orders, [content], [theirs.fileno()])
        return ours

    def close(self) -> None:
        self._orders.close()
        self._process.wait()


_nursery: Nursery | None = None
_nursery_of_pid = 0
_nursery_lock = threading.Lock()


def the_nursery() -> Nursery:
    """One nursery per process: a forked test process creates its own."""
    global _nursery, _nursery_of_pid
    with _nursery_lock:
        if _nursery is None or _nursery_of_pid != os.getpid():
            _nursery, _nursery_of_pid = Nursery(), os.getpid()
        return _nursery


def send(channel: socket.socket, what: object) -> None:
    content = pickle.dumps(what)
    channel.sendall(len(content).to_bytes(4, "big") + content)


def receive(channel: socket.socket) -> Any:  # noqa: ANN401 Ready, None or an exception
    """Raises EOFError when the process on the other side is gone."""
    length = int.from_bytes(_exactly(channel, 4), "big")
    return pickle.loads(_exactly(channel, length))  # noqa: S301 from our own child


def _exactly(channel: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        try:
            received = channel.recv(count - len(content))
        except ConnectionResetError:
            received = b""
        if not received:
            raise EOFError
        content += received
    return bytes(content)


# The process that forks


def serve_orders(descriptor: int) -> None:
    orders = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # this process does not wait for its nodes
    gc.collect()
    gc.freeze()
    while True:
        content, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 1)
        if not content:
            return
        with socket.socket(fileno=descriptors[0]) as channel:
            if os.fork() == 0:
                orders.close()
                _be_a_node(channel, pickle.loads(content))  # noqa: S301 from the process that started us


def _be_a_node(channel: socket.socket, order: Order) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.log is None:
        log_to_stderr(logging.WARNING)
    else:
        log_to(logging.FileHandler(order.log), logging.INFO)
    outcome: BaseException | None = None
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_Told(channel, order.peer_ports).run(NodeConfig.parse(order.config), order.directory))
    except BaseException as problem:  # noqa: BLE001 crosses to the process that owns the test
        outcome = _portable(problem)
    try:
        channel.setblocking(True)
        send(channel, outcome)
    finally:
        # Not sys.exit: it would run the atexit functions of the forking process.
        os._exit(0)


class _Told:
    """A node that obeys the commands on its channel, from before it is ready until it stops."""

    def __init__(self, channel: socket.socket, peer_ports: tuple[int, ...]) -> None:
        self._channel = channel
        self._peer_ports = peer_ports
        self._walls: WalledNet
        self._node: Node
        self._faults = Faults()
        self._unread = bytearray()
        self._stopping = asyncio.Event()

    async def run(self, config: NodeConfig, directory: Path | None) -> None:
        self._channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._channel, self._hear)
        await serve(config, directory, self._started, self._stopping, around=self._around)

    def _around(self, ports: Ports) -> Ports:
        self._walls = WalledNet(ports.net, self._peer_ports)
        return replace(self._faults.around(ports), net=self._walls)

    def _started(self, node: Node) -> None:
        self._node = node
        node.intercept(self._faults.intercept)
        self._tell(Ready(os.getpid(), node.port))

    def _hear(self) -> None:
        received = self._channel.recv(ORDER_BYTES_MAX)
        if not received:
            # The test process is gone or has dropped this node, so a clean stop is not needed.
            os._exit(1)
        self._unread.extend(received)
        while (command := _taken(self._unread)) is not None:
            if command.order == "stop":
                asyncio.get_running_loop().remove_reader(self._channel)
                self._stopping.set()
            else:
                self._tell(Done(command.number, self._obey(command)))

    def _obey(self, command: Command) -> object:
        if command.order == "walls":
            self._walls.wall_off(**command.arguments)
        elif command.order == "drop":
            self._walls.drop_connections()
        elif command.order == "brokers":
            return self._node.known_brokers
        else:
            return self._faults.obey(command.order, dict(command.arguments))
        return None

    def _tell(self, what: object) -> None:
        self._channel.setblocking(True)
        send(self._channel, what)
        self._channel.setblocking(False)


def _taken(unread: bytearray) -> Command | None:
    """Removes and returns the first complete command, if there is one."""
    length = int.from_bytes(unread[:4], "big")
    if len(unread) < 4 or len(unread) < 4 + length:
        return None
    command: Command = pickle.loads(bytes(unread[4 : 4 + length]))  # noqa: S301 from the process that started us
    del unread[: 4 + length]
    return command


def _portable(problem: BaseException) -> BaseException:
    """The exception itself if it can be pickled, otherwise a NodeFailed with its text."""
    problem.__traceback__ = None
    try:
        travelled: BaseException = pickle.loads(pickle.dumps(problem))  # noqa: S301 made in this line
    except Exception:  # noqa: BLE001 an exception may do anything in its constructor
        return NodeFailed(f"{type(problem).__name__}: {problem}")
    return travelled
