"""Pushes the metrics of a node while it runs. Nothing is imported or started without a destination."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from odradek.base.steps import in_slices
from odradek.export.destinations import Identity
from odradek.monitor.registry import Registry, Snapshot
from odradek.node.config import NodeConfig

SERVICE = "odradek"
SLICE_PAUSE_S = 0.001
# An event loop that does not answer for this long is stuck; the push is left out.
SNAPSHOT_TIMEOUT_S = 5.0


@asynccontextmanager
async def pushed_metrics(config: NodeConfig, registry: Registry) -> AsyncIterator[None]:
    if config.push.otlp is None and config.push.dogstatsd is None:
        yield
        return
    from odradek.export.exporting import pushers

    loop = asyncio.get_running_loop()

    def snapshot() -> Snapshot:
        """Runs on the thread of a pusher, and collects on the event loop, which owns what is read."""
        if loop.is_closed():
            raise TimeoutError("the node has stopped")
        collecting = asyncio.run_coroutine_threadsafe(in_slices(registry.collect(), SLICE_PAUSE_S), loop)
        return collecting.result(SNAPSHOT_TIMEOUT_S)

    started = pushers(config.push, Identity(service=SERVICE, instance=str(config.node_id)), snapshot)
    for pusher in started:
        pusher.start()
    try:
        yield
    finally:
        for pusher in started:
            await asyncio.to_thread(pusher.stop)
