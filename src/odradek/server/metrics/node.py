"""The metrics of one node: connects its parts with the registry, and keeps rates and samples up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import IntEnum

from odradek.base.ports import Ports, Volume
from odradek.base.steps import in_slices
from odradek.metadata.feed import Listener
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.monitor.catalogue import broker as catalogue
from odradek.monitor.catalogue.quorum import APPLY_TIME
from odradek.monitor.registry import Registry
from odradek.server.broker import Broker
from odradek.server.controller.active_controller import ActiveController
from odradek.server.fetchers import Fetchers
from odradek.server.metrics.broker import measure_broker, measure_listener
from odradek.server.metrics.groups import measure_groups
from odradek.server.metrics.partitions import measure_partitions
from odradek.server.metrics.quorum import ControllerMetrics, measure_quorum
from odradek.server.metrics.requests import RequestMetrics
from odradek.server.metrics.transactions import measure_transactions
from odradek.server.network.listener import ClientListener
from odradek.server.network.request import Api, FrameApi
from odradek.server.quorum.metadata_quorum import MetadataQuorum

TICK_S = 1.0
# As in Kafka's meters.
TICKS_PER_RATE = 5
TICKS_PER_VOLUME = 30
UNKNOWN_VOLUME = Volume()


class BrokerState(IntEnum):
    """With Kafka's numbers."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    STOPPING = 6


class NodeMetrics:
    def __init__(self, registry: Registry, ports: Ports) -> None:
        self.registry = registry
        self._ports = ports
        self._requests = RequestMetrics(registry, ports.clock.monotonic_ns)
        self._flushes = registry.timer(catalogue.FLUSH_TIME)
        # The state of the broker.
        self.state = BrokerState.STARTING
        registry.gauge(catalogue.BROKER_STATE, lambda: self.state)
        self._read_volume: Callable[[], Volume] | None = None
        self._volume = UNKNOWN_VOLUME
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._ports.spawner.spawn("metrics", self._tick())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def flushed(self, took_ns: int) -> None:
        self._flushes.observe(took_ns)

    def observe(self, listener: ClientListener, name: str, apis: Mapping[int, Api | FrameApi]) -> None:
        """Before the listener accepts connections."""
        listener.observer = self._requests.observer(apis)
        measure_listener(self.registry, listener, name)

    def measure_broker(self, broker: Broker, clients: ClientListener, fetchers: Fetchers) -> None:
        measure_broker(self.registry, broker, clients, fetchers)
        measure_partitions(self.registry, broker)
        measure_groups(self.registry, broker.groups, self._ports.clock)
        measure_transactions(self.registry, broker.transactions, self._ports.clock)
        self._read_volume = broker.partitions.volume
        self.registry.gauge(catalogue.DISK_TOTAL, lambda: self._volume.total_bytes)
        self.registry.gauge(catalogue.DISK_USABLE, lambda: self._volume.usable_bytes)

    def measure_quorum(self, quorum: MetadataQuorum) -> None:
        measure_quorum(self.registry, quorum, self._ports.clock)

    def measure_controller(self, quorum: MetadataQuorum, controller: ActiveController) -> None:
        ControllerMetrics(self.registry, quorum, controller, self._ports.clock)

    def timed(self, apply: Listener) -> Listener:
        """The same listener of metadata commits, with its times measured."""
        times, now_ns = self.registry.distribution(APPLY_TIME), self._ports.clock.monotonic_ns

        def measured(image: ClusterImage, delta: ImageDelta) -> None:
            began_ns = now_ns()
            apply(image, delta)
            times.observe(now_ns() - began_ns)

        return measured

    async def _tick(self) -> None:
        now_ns = self._ports.clock.monotonic_ns
        ticks = volume_due = 0
        ticked_ns = now_ns()
        while True:
            # The first tick comes before the broker. Without this check its disk would be unknown (-1) for 30 ticks.
            if ticks >= volume_due and self._read_volume is not None:
                await self._look_at_volume()
                volume_due = ticks + TICKS_PER_VOLUME
            await asyncio.sleep(TICK_S)
            ticks += 1
            before_ns, ticked_ns = ticked_ns, now_ns()
            self._requests.tick((ticked_ns - before_ns) / 1e9)
            if ticks % TICKS_PER_RATE == 0:
                await in_slices(self.registry.tick(), 0.0)

    async def _look_at_volume(self) -> None:
        if self._read_volume is not None:
            try:
                self._volume = await self._ports.spawner.blocking(self._read_volume)
            except OSError:
                self._volume = UNKNOWN_VOLUME
