"""Pushes the metrics of a node while it runs. Nothing is imported or started without a destination."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from odradek.monitor.registry import Registry
from odradek.node.config import NodeConfig
from odradek.node.snapshots import Snapshots

SERVICE = "odradek"


@asynccontextmanager
async def pushed_metrics(config: NodeConfig, registry: Registry) -> AsyncIterator[None]:
    if config.push is None or (config.push.otlp is None and config.push.dogstatsd is None):
        yield
        return
    from odradek.export.destinations import Identity
    from odradek.export.exporting import pushers

    snapshots = Snapshots(registry, asyncio.get_running_loop())
    started = pushers(config.push, Identity(service=SERVICE, instance=str(config.node_id)), snapshots.for_push)
    for pusher in started:
        pusher.start()
    try:
        yield
    finally:
        for pusher in started:
            await asyncio.to_thread(pusher.stop)
