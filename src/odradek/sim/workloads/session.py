"""A client's session with a cluster until something breaks: the partition leaders, and a connection to each of them.

Like Java's client, it ignores metadata with an older leader epoch than it has seen before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from odradek.protocol.messages.p03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.sim.client import Address, BrokerConnection, ClientHost
from odradek.sim.history import Place
from odradek.sim.workloads.refusals import AskAgain, refuse

_METADATA_VERSION = 12
_FIND_COORDINATOR_VERSION = 3
_TRANSACTION = 1


class Session:
    """Any failure ends it: the worker closes it and begins another."""

    def __init__(self, client: ClientHost, rng: Random, timeout_s: float) -> None:
        self._client = client
        self._rng = rng
        self._timeout_s = timeout_s
        self._connections: dict[Address, BrokerConnection] = {}
        self._bootstrap: Address | None = None
        self._leaders: dict[Place, tuple[Address, int]] = {}
        self._coordinators: dict[str, Address] = {}
        self._brokers: dict[int, Address] = {}

    async def anyone(self) -> BrokerConnection:
        """The broker that this session began with."""
        if self._bootstrap is None:
            self._bootstrap = self._rng.choice(self._client.bootstrap)
        return await self._connection(self._bootstrap)

    async def leader(self, place: Place) -> BrokerConnection:
        if place not in self._leaders:
            await self._learn(place[0])
        if place not in self._leaders:
            raise AskAgain(f"{place} has no leader")
        return await self._connection(self._leaders[place][0])

    def leader_epoch(self, place: Place) -> int:
        """The epoch of the leader that `leader` has found."""
        return self._leaders[place][1]

    async def by_leader(self, places: Sequence[Place]) -> dict[BrokerConnection, list[Place]]:
        grouped: dict[BrokerConnection, list[Place]] = {}
        for place in places:
            grouped.setdefault(await self.leader(place), []).append(place)
        return grouped

    async def broker(self, node_id: int) -> BrokerConnection:
        """A broker that was named in the same metadata as a leader."""
        if node_id not in self._brokers:
            raise AskAgain(f"where is broker {node_id}?")
        return await self._connection(self._brokers[node_id])

    async def controller(self, address: Address) -> BrokerConnection:
        """A connection to a controller listener."""
        return await self._connection(address)

    async def coordinator(self, group: str) -> BrokerConnection:
        if group not in self._coordinators:
            connection = await self.anyone()
            answer = await connection.ask(
                FindCoordinatorRequest(key=group), _FIND_COORDINATOR_VERSION, FindCoordinatorResponse, self._timeout_s
            )
            refuse(self._client.host.name, answer.error_code, "a coordinator")
            self._coordinators[group] = (answer.host, answer.port)
        return await self._connection(self._coordinators[group])

    async def transaction_coordinator(self, transactional_id: str) -> BrokerConnection:
        connection = await self.anyone()
        answer = await connection.ask(
            FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION),
            _FIND_COORDINATOR_VERSION,
            FindCoordinatorResponse,
            self._timeout_s,
        )
        refuse(self._client.host.name, answer.error_code, "a transaction coordinator")
        return await self._connection((answer.host, answer.port))

    async def describe(self, topics: Sequence[str] | None) -> MetadataResponse:
        """None for all topics."""
        connection = await self.anyone()
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        return await connection.ask(request, _METADATA_VERSION, MetadataResponse, self._timeout_s)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def _learn(self, name: str) -> None:
        answer = await self.describe([name])
        topic: MetadataResponseTopic = answer.topics[0]
        refuse(self._client.host.name, topic.error_code, f"the leaders of {name}")
        addresses: dict[int, Address] = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._brokers = addresses
        newest = self._client.newest_epochs
        for partition in topic.partitions:
            # A topic that is recreated under the same name starts with low epochs again.
            known = (topic.topic_id, partition.partition_index)
            if partition.leader_id in addresses and partition.leader_epoch >= newest.get(known, -1):
                newest[known] = partition.leader_epoch
                place = (name, partition.partition_index)
                self._leaders[place] = (addresses[partition.leader_id], partition.leader_epoch)

    async def _connection(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._client.connect(address)
            self._connections[address] = connection
        return connection
