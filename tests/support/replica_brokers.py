"""Brokers of one cluster in one loop: real sockets, logs, fetchers and handlers; one image, committed by the test.

async with ReplicaBrokers(3) as cluster:
    cluster.create_topic("t", replicas=[1, 2, 3])
    client = await cluster[1].connect()
    await client.produce("t", batch("one"), acks=-1)
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Self

from odradek.adapters.clock import SystemClock
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.net import TcpNet
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, LeaderEpoch, Offset
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.replication.partition_table import PartitionTable
from odradek.security.authorizer import AllowAll
from odradek.server.fetch_sessions import FetchSessions
from odradek.server.fetchers import Fetchers
from odradek.server.group_commit import GroupCommit
from odradek.server.network.dispatch import Dispatcher
from odradek.server.network.listener import ClientListener, ConnectionLimits
from odradek.server.network.peers import Peers
from odradek.server.network.request import BrokerContext
from odradek.server.tally import Tally
from support import waiting
from support.admin_broker import CLUSTER_ID, SeededRng
from support.data_broker import Client

APIS = {
    api.key: api
    for api in (
        import_module(f"odradek.server.api.{name}").API
        for name in ("p00_produce", "p01_fetch", "p02_list_offsets", "p23_offset_for_leader_epoch")
    )
}


async def until(condition) -> None:
    await waiting.until(condition, within_s=86_400, every_s=0.002)


class ReplicaBroker:
    def __init__(self, cluster: ReplicaBrokers, broker_id: int, disk: MemoryDisk, settings: dict[str, str]) -> None:
        self.cluster = cluster
        self.broker_id = BrokerId(broker_id)
        self.broker_epoch = 1
        self.disk = disk
        self.config = BrokerConfig.parse(
            {
                "node.id": str(broker_id),
                "replica.fetch.wait.max.ms": "50",
                "replica.lag.time.max.ms": "300",
                "replica.fetch.backoff.ms": "50",
                **settings,
            }
        )
        self.clock = SystemClock()
        self.failures: list[BaseException] = []
        self.proposals: list[Any] = []
        self._clients: list[Client] = []

    async def start(self) -> None:
        self.spawner = AsyncioSpawner(self._failed)
        self.logs = LogDirectory(self.disk, SeededRng())
        self.logs.load(lambda _: LogConfig(), self.clock.wall_ms())
        self.commits = GroupCommit(self.spawner, self.clock)
        self.peers = Peers(
            net=TcpNet(),
            clock=self.clock,
            spawner=self.spawner,
            resolve=self.cluster.endpoint,
            client_id=f"broker-{self.broker_id}",
        )
        self.fetchers = Fetchers(
            config=self.config,
            cluster_id=CLUSTER_ID,
            broker_epoch=lambda: self.broker_epoch,
            peers=self.peers,
            clock=self.clock,
            spawner=self.spawner,
        )
        self.partitions = PartitionTable(
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            request_sync=self.commits.request,
            remove_later=lambda *_: None,
            propose=lambda partition, proposal: self.proposals.append((partition, proposal)),
            follow=self.fetchers.follow,
        )
        self.broker = SimpleNamespace(
            listener_name="PLAINTEXT",
            node_id=self.broker_id,
            config=self.config,
            clock=self.clock,
            spawner=self.spawner,
            authorizer=AllowAll(),
            apis=APIS,
            partitions=self.partitions,
            image=ClusterImage(cluster_id=CLUSTER_ID),
            fetch_sessions=FetchSessions(
                self.config.max_incremental_fetch_session_cache_slots, self.clock, SeededRng()
            ),
            parked_fetches={},
            tally=Tally(),
        )
        self.listener = ClientListener(TcpNet(), ConnectionLimits())
        await self.listener.bind("127.0.0.1", 0)
        self.port = self.listener.port
        self.listener.serve(Dispatcher(self.broker, BrokerContext).handle)

    def _failed(self, name: str, problem: BaseException) -> None:
        problem.add_note(name)
        self.failures.append(problem)

    async def stop(self) -> None:
        for client in self._clients:
            client.writer.close()
        await self.fetchers.stop()
        for fetch in list(self.broker.parked_fetches):
            fetch.answer()
        await self.listener.stop()
        await self.peers.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()
        await self.commits.idle()
        await self.spawner.close()
        if self.failures:
            raise ExceptionGroup(f"broker {self.broker_id}", self.failures)

    def apply(self, image, delta) -> None:
        self.broker.image = image
        self.partitions.apply(image, delta)

    def partition(self, topic: str = "t", index: int = 0):
        return self.partitions.get(topic, index)

    async def connect(self) -> Client:
        client = Client(self, *await asyncio.open_connection("127.0.0.1", self.port, limit=2**26))
        self._clients.append(client)
        return client


class ReplicaBrokers:
    def __init__(self, count: int = 3, *, racks: dict[int, str] | None = None, **settings: str) -> None:
        """Config keys with underscores."""
        self.image = ClusterImage(cluster_id=CLUSTER_ID)
        self._racks = racks or {}
        self._topics_created = 0
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.brokers = {number: self._new(number, MemoryDisk()) for number in range(1, count + 1)}

    def __getitem__(self, broker_id: int) -> ReplicaBroker:
        return self.brokers[broker_id]

    def _new(self, broker_id: int, disk: MemoryDisk) -> ReplicaBroker:
        return ReplicaBroker(self, broker_id, disk, self._settings)

    async def __aenter__(self) -> Self:
        for broker in self.brokers.values():
            await broker.start()
        for broker_id in self.brokers:
            self.register(broker_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    def endpoint(self, broker_id: int) -> Any:
        return SimpleNamespace(host="127.0.0.1", port=self.brokers[broker_id].port)

    # The controller

    def commit(self, *records: Any) -> None:
        self.image, delta = self.image.replay(list(records), Offset(self.image.offset + len(records)), LeaderEpoch(1))
        for broker in self.brokers.values():
            broker.apply(self.image, delta)

    def register(self, broker_id: int, *, fenced: bool = False) -> None:
        self.commit(
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=self.brokers[broker_id].broker_epoch,
                incarnation_id=bytes(16),
                end_points=[BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=self.brokers[broker_id].port)],
                rack=self._racks.get(broker_id),
                fenced=fenced,
            )
        )

    def create_topic(self, name: str, replicas=(1, 2, 3), isr=None, partitions: int = 1, **configs: str) -> None:
        self._topics_created += 1
        topic_id = self._topics_created.to_bytes(16, "big")
        self.commit(
            TopicRecord(name=name, topic_id=topic_id),
            *(
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(isr or replicas),
                    leader=(isr or replicas)[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[bytes(15) + b"\x01"] * len(replicas),
                )
                for index in range(partitions)
            ),
        )

    def delete_topic(self, name: str) -> None:
        self.commit(RemoveTopicRecord(topic_id=self.image.topics[name].topic_id))

    def change(self, topic: str = "t", index: int = 0, **fields: Any) -> None:
        topic_id = self.image.topics[topic].topic_id
        self.commit(PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields))

    def decide(self, broker_id: int) -> None:
        """Accept the proposals of this leader."""
        for partition, proposal in self.brokers[broker_id].proposals:
            if proposal.partition_epoch == partition.partition_epoch:
                self.change(partition.topic, partition.index, isr=list(proposal.members))
            else:
                partition.isr_refused(proposal, ErrorCode.INVALID_UPDATE_VERSION, 0)
        self.brokers[broker_id].proposals.clear()
