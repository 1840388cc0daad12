"""Client telemetry of a broker: the async shell of `odradek.telemetry`.

Pushed metrics are decompressed and read in a thread, one push at a time. Pushes that wait for it take a limited amount
of memory; beyond that, clients are asked to push later.
"""

from __future__ import annotations

import asyncio
from functools import partial

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import random_uuid
from odradek.base.ports import Clock, Rng, Spawner
from odradek.metadata.image import CLIENT_METRICS_RESOURCE, ClusterImage, ImageDelta
from odradek.monitor.catalogue import client_telemetry as catalogue
from odradek.monitor.registry import Registry
from odradek.server.network.request import Connection, RequestContext
from odradek.telemetry.instances import ClientInstances, Instance, Push
from odradek.telemetry.samples import samples
from odradek.telemetry.series import PushedSeries
from odradek.telemetry.subscriptions import Client, subscriptions

EXPIRY_CHECK_MS = 10_000


class ClientTelemetry:
    def __init__(self, *, bytes_max: int, image: ClusterImage, clock: Clock, rng: Rng, spawner: Spawner) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._new_id = partial(random_uuid, rng)
        self._spawner = spawner
        self._instances = ClientInstances(bytes_max=bytes_max)
        self._instances.configure(subscriptions(image.client_metrics()))
        self._series = PushedSeries()
        self._turn = asyncio.Lock()
        self._waiting_bytes = 0

    @property
    def has_subscriptions(self) -> bool:
        return self._instances.has_subscriptions

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        if any(resource.type == CLIENT_METRICS_RESOURCE for resource in delta.configs):
            self._instances.configure(subscriptions(image.client_metrics()))

    def get(self, ctx: RequestContext, instance_id: bytes) -> Instance:
        """Raises KafkaError."""
        return self._instances.get(instance_id, _client(ctx), ctx.connection, self._clock.monotonic_ms(), self._new_id)

    async def push(self, ctx: RequestContext, instance_id: bytes, push: Push) -> None:
        """Raises KafkaError."""
        instance = self._instances.push(instance_id, push, _client(ctx), ctx.connection, self._clock.monotonic_ms())
        size = len(push.metrics)
        if not size:
            return
        if self._waiting_bytes + size > limits.telemetry_waiting_bytes_max:
            self._instances.tally.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._waiting_bytes += size
        try:
            async with self._turn:
                pushed = await self._spawner.blocking(samples, push.compression_type, push.metrics, instance.wanted)
        except KafkaError as refused:
            instance.last_error = refused.code
            raise
        finally:
            self._waiting_bytes -= size
        self._series.store(instance, pushed, self._clock.monotonic_ms())

    def lost(self, connection: Connection) -> None:
        self._instances.lost(connection)

    async def expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._instances.expire(now_ms)
        self._series.expire(now_ms)

    def measure(self, registry: Registry) -> None:
        """Adds what clients have pushed, and figures about it, to the metrics of this process."""
        registry.source(self._series.readings)
        series, instances = self._series, self._instances
        registry.gauge(catalogue.INSTANCES, lambda: len(instances))
        registry.gauge(catalogue.SERIES, lambda: len(series))
        registry.gauge(catalogue.PUSHES, lambda: series.tally.pushes)
        registry.gauge(catalogue.THROTTLED, lambda: instances.tally.throttled)
        registry.gauge(catalogue.UNKNOWN_SUBSCRIPTION, lambda: instances.tally.unknown_subscription)
        registry.gauge(catalogue.EVICTED, lambda: instances.tally.evicted)
        registry.gauge(catalogue.REFUSED, lambda: series.tally.refused)
        registry.gauge(catalogue.DROPPED, lambda: series.tally.dropped)


def _client(ctx: RequestContext) -> Client:
    connection = ctx.connection
    return Client(
        principal=connection.principal,
        client_id=ctx.client_id,
        software_name=connection.software.name,
        software_version=connection.software.version,
        address=connection.client_host,
        port=connection.client_port,
    )
