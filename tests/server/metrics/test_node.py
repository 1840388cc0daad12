"""What a node measures as time passes, on virtual time."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace

from odradek.base.ports import Volume
from odradek.monitor.registry import Registry
from odradek.server.metrics.node import NodeMetrics
from odradek.sim.loop import SimLoop
from support.group_broker import LoopSpawner


def test_disk_is_measured_at_once_when_the_broker_starts_after_the_first_tick():
    loop = SimLoop(Random(1))
    clock = SimpleNamespace(monotonic_ns=lambda: int(loop.time() * 1e9))
    metrics = NodeMetrics(Registry(clock.monotonic_ns), SimpleNamespace(clock=clock, spawner=LoopSpawner(loop)))

    async def story():
        metrics.start()
        await asyncio.sleep(3)
        metrics._read_volume = lambda: Volume(total_bytes=10, usable_bytes=5)
        await asyncio.sleep(2)
        metrics.stop()
        return metrics._volume

    assert loop.run_until_complete(story()) == Volume(total_bytes=10, usable_bytes=5)
