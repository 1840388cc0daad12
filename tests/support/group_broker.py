"""A broker with real partitions in memory and a real group coordinator, on virtual time, without sockets.

`send` takes a request through the codec of its version in both directions; requests that wait are tasks.
"""

from __future__ import annotations

import asyncio
import inspect
from random import Random
from typing import Any

from odradek.adapters.memory_disk import MemoryDisk
from odradek.log.directory import LogDirectory
from odradek.metadata.image import ClusterImage
from odradek.replication.partition_table import PartitionTable
from odradek.server.api.table import load_apis
from odradek.server.broker_channel import BrokerChannel
from odradek.server.internal_topics import group_coordinator, leader_for, transaction_coordinator
from odradek.server.network.request import BrokerContext
from odradek.server.transactions.markers import MarkerGathering
from odradek.server.transactions.partitions import TransactionPartitions
from odradek.sim.loop import SimLoop
from support.admin_broker import AdminBroker, OneConnection, SeededRng

WALL_START_MS = 1_700_000_000_000


class LoopClock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1_000_000_000)

    def wall_ms(self) -> int:
        return WALL_START_MS + self.monotonic_ms()


class LoopSpawner:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def spawn(self, _name, work):
        return self._loop.create_task(work)

    async def blocking(self, call, *args):
        # Outside the event loop, so that other tasks run meanwhile.
        await asyncio.sleep(0)
        return call(*args)


class GroupBroker(AdminBroker):
    is_built = False

    def __init__(self, *, settings=None, disk=None, image: ClusterImage | None = None, **more) -> None:
        defaults = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
        }
        super().__init__(settings={**defaults, **(settings or {})}, **more)
        self.loop = SimLoop(Random(1))
        self.disk = disk or MemoryDisk()
        self.clock = LoopClock(self.loop)
        self.logs = LogDirectory(self.disk, SeededRng())
        self.apis = load_apis()
        broker = self.broker
        broker.apis = self.apis
        broker.clock = self.clock
        broker.spawner = LoopSpawner(self.loop)
        broker.partitions = self.partitions = PartitionTable(
            config=broker.config,
            clock=self.clock,
            logs=self.logs,
            request_sync=lambda _partition: None,
            remove_later=lambda _directory, _ms: None,
        )
        channel = BrokerChannel(
            node_id=broker.node_id,
            peers=None,
            apis=self.apis,
            context=lambda connection, version: BrokerContext(broker, connection, version, 0, None),
        )
        broker.groups = group_coordinator(
            config=broker.config,
            clock=self.clock,
            spawner=broker.spawner,
            partitions=broker.partitions,
            ask_broker=channel.ask,
        )
        broker.transactions = transaction_coordinator(
            config=broker.config,
            broker_id=broker.node_id,
            clock=self.clock,
            spawner=broker.spawner,
            partitions=broker.partitions,
            ask_broker=MarkerGathering(channel.ask, broker.spawner).ask,
            timed_out=broker.tally.timed_out_transactions,
        )
        broker.transaction_partitions = TransactionPartitions(
            config=broker.config,
            coordinator=lambda key: leader_for(broker, broker.transactions, key),
            ask_broker=channel.ask,
            clock=self.clock,
            spawner=broker.spawner,
            tally=broker.tally,
        )
        if image is not None:
            broker.image = image
        self.is_built = True

    def commit(self, records) -> None:
        if not records:
            return
        image = self.broker.image
        after, delta = image.replay(list(records), image.offset + len(records), 1)
        if self.is_built:
            self.broker.apply(after, delta)
        else:
            self.broker.image = after

    def run(self, story):
        return self.loop.run_until_complete(story)

    async def send(self, key: int, request: Any, version: int, *, client_id: str | None = "test") -> Any:
        api = self.apis[key]
        decoded = api.request.decode(request.encode(version), version)
        ctx = BrokerContext(self.broker, OneConnection(), version, 7, client_id)
        response = api.handle(ctx, decoded)
        if inspect.isawaitable(response):
            response = await response
        return type(response).decode(response.encode(version), version)

    def later(self, key: int, request: Any, version: int, **more) -> asyncio.Task:
        return self.loop.create_task(self.send(key, request, version, **more))

    def restarted(self, **more) -> GroupBroker:
        """The same data after a stop, with an empty coordinator. `start` lets it load the data."""
        self.broker.stop_coordinating()
        for log in self.logs.logs.values():
            log.close()
        return GroupBroker(disk=self.disk, image=self.broker.image, settings=dict(self.broker.config.static), **more)

    async def start(self) -> None:
        broker = self.broker
        from odradek.replication.partition_table import TopicSettings

        settings = TopicSettings(broker.image, broker.config)
        self.logs.load(lambda topic: settings.of(topic)[0], self.clock.wall_ms())
        broker.partitions.start(broker.image)
        broker.groups.apply(broker.image, broker.image.as_delta())
        broker.transactions.apply(broker.image, broker.image.as_delta())
