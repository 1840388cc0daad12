"""Runs a node on a real machine until it is stopped or fails."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

from odradek.base.ports import Ports
from odradek.metadata.configs.without_meaning import WITHOUT_MEANING
from odradek.monitor.registry import Registry
from odradek.node.build import Node
from odradek.node.config import Endpoint, NodeConfig
from odradek.node.event_loop import LoopMetrics
from odradek.node.http import NodeHttp, bound
from odradek.node.logs import TEXT, log_to_stderr
from odradek.node.machine import MachineSpawner, locked, machine_ports, new_event_loop, tune_allocator
from odradek.node.pushing import pushed_metrics
from odradek.node.tcp_ports import require_free
from odradek.web.process_metrics import measure_disk_io, measure_process

logger = logging.getLogger(__name__)


class NodeFailed(Exception):
    """The node failed. Unacknowledged records may be lost, acknowledged records are not."""


def run_in_foreground(
    directory: Path | None,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    *,
    announce: Callable[[str], None],
    verbose: bool,
    log_format: str = TEXT,
    ready: Callable[[Endpoint], None] | None = None,
) -> None:
    """Runs a single node until SIGINT or SIGTERM, then stops it cleanly. `ready` gets its address for clients."""
    where = Endpoint(host=host, port=port)
    config = NodeConfig.parse({"listeners": f"PLAINTEXT://{where}", **overrides})
    other_port = "change this port in listeners" if "listeners" in overrides else "choose another port with --port"
    run_node(
        config,
        directory,
        announce=announce,
        verbose=verbose,
        log_format=log_format,
        ready=ready,
        other_port=other_port,
    )


def run_node(
    config: NodeConfig,
    directory: Path | None,
    *,
    announce: Callable[[str], None],
    verbose: bool,
    log_format: str = TEXT,
    lifeline: int | None = None,
    ready: Callable[[Endpoint], None] | None = None,
    other_port: str = "change this port in listeners",
) -> None:
    """Runs a node until SIGINT, SIGTERM or the end of the descriptor `lifeline`, then stops it cleanly.

    `other_port` tells how to choose another port if one is in use.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING, log_format, node_id=config.node_id)
    for key in config.broker.ignored:
        logger.warning("%s has no effect: %s", key, WITHOUT_MEANING[key])
    for listener in config.listeners:
        require_free(listener.bind, other_port)
    tune_allocator()

    status = _Status()
    registry = Registry(time.monotonic_ns)
    measure_process(registry)
    if config.broker.metrics_enable:
        measure_disk_io(registry)
    http = _http(config, status, registry)

    def started(node: Node) -> None:
        # All current objects live as long as the node: the garbage collector need not scan them again.
        gc.freeze()
        status.node = node
        node.measure(registry)
        announce(_ready(config, node, directory))
        for line in _http_lines(http):
            announce(line)
        _tell_address(config, node, ready)

    async def until_told() -> None:
        status.stopping = stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        if lifeline is not None:
            loop.add_reader(lifeline, _watch, loop, lifeline, stopping)
        if http is not None:
            http.begin()
        measured = LoopMetrics(registry) if config.broker.metrics_enable else None
        try:
            async with pushed_metrics(config, registry):
                await serve(config, directory, started, stopping, registry=registry)
        finally:
            if measured is not None:
                measured.stop()
            if http is not None:
                http.leave_loop()
                await asyncio.to_thread(http.stop)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(until_told())
    announce("stopped cleanly")


def _http_lines(http: NodeHttp | None) -> Sequence[str]:
    return [] if http is None else [f"Health: {http.url}/healthz, {http.url}/readyz", f"Metrics: {http.url}/metrics"]


def _tell_address(config: NodeConfig, node: Node, ready: Callable[[Endpoint], None] | None) -> None:
    """A listener on all addresses is reached on loopback."""
    if config.client_listener is not None and ready is not None:
        host = config.client_listener.bind.host
        loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        ready(Endpoint(host=loopback.get(host, host), port=node.port))


class _Status:
    """The node's state for HTTP."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.stopping: asyncio.Event | None = None

    def not_ready(self) -> Sequence[str]:
        if self.stopping is not None and self.stopping.is_set():
            return ["the node is stopping"]
        if self.node is None:
            return ["the node is starting"]
        return self.node.not_ready()


def _http(config: NodeConfig, status: _Status, registry: Registry) -> NodeHttp | None:
    if config.http is None:
        return None
    listener = bound(config.http, is_default=config.broker.http_listener is None)
    return NodeHttp(listener, config.http.host, status.not_ready, registry)


def _watch(loop: asyncio.AbstractEventLoop, lifeline: int, stopping: asyncio.Event) -> None:
    """Stops the node when `lifeline` is at its end: the parent process, which never writes to it, is gone."""
    if not os.read(lifeline, 1):
        loop.remove_reader(lifeline)
        stopping.set()


def _ready(config: NodeConfig, node: Node, directory: Path | None) -> str:
    records = "memory" if directory is None else str(directory)
    if config.client_listener is None:
        where, what = config.listeners[0].bind, f"Controller {config.node_id}"
    else:
        where, what = Endpoint(host=config.client_listener.bind.host, port=node.port), "Odradek"
    return f"{what} is ready on {where}, records in {records}. Ctrl-C stops it."


async def serve(
    config: NodeConfig,
    directory: Path | None,
    started: Callable[[Node], None],
    stopping: asyncio.Event,
    *,
    around: Callable[[Ports], Ports] = lambda ports: ports,
    registry: Registry | None = None,
) -> None:
    """Runs a node on this loop; `around` wraps its ports. Returns after a clean stop; raises NodeFailed otherwise."""
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def failed(task: str, problem: BaseException) -> None:
        if not failure.done():
            failure.set_exception(NodeFailed(f"{task}: {problem}").with_traceback(problem.__traceback__))

    spawner = MachineSpawner(failed)
    with _callbacks_heard(failed), locked(directory), machine_ports(directory, spawner) as ports:
        node = Node(config, around(ports), registry)
        stop_wanted = spawner.spawn("wait for the stop signal", _wait(stopping))
        starting = asyncio.ensure_future(node.start())
        try:
            # A cluster node may wait forever for a majority: a stop interrupts its start. A single node completes its
            # start, and then stops cleanly.
            patient = {starting, failure} if config.is_alone else {starting, failure, stop_wanted}
            await asyncio.wait(patient, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                started(node)
                await asyncio.wait({stop_wanted, failure}, return_when=asyncio.FIRST_COMPLETED)
                if not failure.done():
                    await node.stop()
        finally:
            starting.cancel()
            await asyncio.wait({starting})
            await node.abandon()
            # Release the lock only after every thread that may write to the directory has ended.
            await spawner.close()
    if failure.done():
        await failure


@contextmanager
def _callbacks_heard(failed: Callable[[str, BaseException], None]) -> Iterator[None]:
    """An exception in a callback of the loop fails the node, like one in a task. The loop itself would only log it."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def heard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        problem = context.get("exception")
        # Other reports are about connections, or about tasks that have an owner.
        if "handle" in context and isinstance(problem, Exception) and _is_ours(problem):
            failed("a callback", problem)

    loop.set_exception_handler(heard)
    try:
        yield
    finally:
        loop.set_exception_handler(before)


def _is_ours(problem: Exception) -> bool:
    """False for errors of the network or a library: a client that disconnects must not fail the node."""
    return not isinstance(problem, OSError) and any(
        str(frame.f_globals.get("__name__")).startswith("odradek.") for frame, _ in walk_tb(problem.__traceback__)
    )


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
