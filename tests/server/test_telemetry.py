"""Pushes are read one at a time, off the event loop, and waiting pushes take a limited amount of memory."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.metadata.image import ClusterImage
from odradek.server.network.request import RequestContext
from odradek.server.telemetry import ClientTelemetry
from odradek.telemetry.instances import Push
from support.admin_broker import OneConnection, StandingClock
from support.held_spawner import HeldSpawner
from support.pushed_metrics import gauge, payload, point
from support.seeded_rng import SeededRng

METRICS = payload(gauge("org.apache.kafka.x", point(1)))


class Pushing:
    def __init__(self) -> None:
        self.spawner = HeldSpawner(None)
        self.telemetry = ClientTelemetry(
            bytes_max=limits.telemetry_waiting_bytes_max,
            image=ClusterImage(cluster_id="c"),
            clock=StandingClock(),
            rng=SeededRng(),
            spawner=self.spawner,
        )

    def push(self, metrics: bytes = METRICS) -> asyncio.Task[None]:
        ctx = RequestContext(None, OneConnection(), 0, 1, "app")
        instance = self.telemetry.get(ctx, ZERO_UUID)
        push = Push(instance.subscription_id, terminating=False, compression_type=0, metrics=metrics)
        return asyncio.ensure_future(self.telemetry.push(ctx, instance.instance_id, push))


def test_pushes_are_read_one_at_a_time(run):
    async def scenario():
        pushing = Pushing()
        first, second = pushing.push(), pushing.push()
        gate = await pushing.spawner.held.get()
        for _ in range(10):
            await asyncio.sleep(0)
        assert pushing.spawner.held.empty()
        gate.set()
        await first
        assert not second.done()
        (await pushing.spawner.held.get()).set()
        await second
        assert pushing.spawner.held.empty()

    run(scenario())


def test_pushes_that_wait_are_bounded_and_room_is_free_again_afterwards(run):
    async def scenario():
        pushing = Pushing()
        large = pushing.push(bytes(limits.telemetry_waiting_bytes_max))
        gate = await pushing.spawner.held.get()
        with pytest.raises(KafkaError) as refused:
            await pushing.push()
        assert refused.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        gate.set()
        with pytest.raises(KafkaError):
            await large
        accepted = pushing.push()
        (await pushing.spawner.held.get()).set()
        await accepted

    run(scenario())
