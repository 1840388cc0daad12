"""A node as a process of its own: signals, logging, the event loop; or as a thread inside another program."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.node.build import Node
from odradek.node.config import NodeConfig
from odradek.node.machine import machine_ports, new_event_loop, tune_allocator

logger = logging.getLogger("odradek")


class StartFailed(Exception):
    """The node did not come up. The message says why and what to do."""


def run_in_foreground(
    directory: Path | None, host: str, port: int, overrides: Mapping[str, str], announce: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM, then stop cleanly. Raises when the node fails by itself."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = NodeConfig.from_overrides({"listeners": f"PLAINTEXT://{host}:{port}", **overrides})
    tune_allocator()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(config, directory, announce))


async def _serve(config: NodeConfig, directory: Path | None, announce: Callable[[str], None]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    node = await _started(config, directory)
    where = "memory" if directory is None else str(directory)
    announce(f"Odradek is ready on {node.host}:{node.port}, records in {where}. Ctrl-C stops it.")
    await _until(stopping, node)
    await node.stop()
    announce("stopped cleanly")


async def _started(config: NodeConfig, directory: Path | None) -> Node:
    try:
        node = Node(config, machine_ports(directory))
        await node.start()
    except OSError as refused:
        raise StartFailed(f"cannot start: {refused}") from refused
    return node


async def _until(stopping: asyncio.Event, node: Node) -> None:
    stop_wanted = asyncio.ensure_future(stopping.wait())
    done, _ = await asyncio.wait({stop_wanted, node.failed}, return_when=asyncio.FIRST_COMPLETED)
    if node.failed in done:
        stop_wanted.cancel()
        await node.failed
