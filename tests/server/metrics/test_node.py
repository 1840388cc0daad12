"""What a node measures as time passes, on virtual time."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

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


def test_rates_of_requests_are_of_the_time_that_has_passed():
    """A tick comes late when the event loop is busy, or stood still with its machine."""
    loop = SimLoop(Random(1))
    clock = SimpleNamespace(monotonic_ns=lambda: int(loop.time() * 3e9))
    metrics = NodeMetrics(Registry(clock.monotonic_ns), SimpleNamespace(clock=clock, spawner=LoopSpawner(loop)))
    passed = []
    metrics._requests = SimpleNamespace(tick=passed.append)

    async def story():
        metrics.start()
        await asyncio.sleep(3.5)
        metrics.stop()

    loop.run_until_complete(story())
    assert passed == pytest.approx([3.0, 3.0, 3.0], abs=0.01)
