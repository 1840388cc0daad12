"""A broker for the data plane: real sockets, real logs, real dispatch; the controller commits at once.

async with DataBroker() as broker:
    broker.create_topic("t")
    client = await broker.connect()
    reply = await client.produce("t", batch("one"), acks=1)
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from typing import Any, Self

from odradek.adapters.clock import SystemClock
from odradek.adapters.memory_disk import MemoryDisk
from odradek.adapters.net import TcpNet
from odradek.adapters.spawner import AsyncioSpawner
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.fencing import unfence_broker
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage, FeatureRange, Listener
from odradek.protocol.batch import encode_batch
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig
from odradek.protocol.metadata_records import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from odradek.protocol.records import Record
from odradek.replication.partition_table import PartitionTable
from odradek.security.authorizer import AllowAll
from odradek.server.broker import Broker
from odradek.server.group_commit import GroupCommit
from odradek.server.housekeeping import Housekeeping
from odradek.server.network.dispatch import Dispatcher
from odradek.server.network.listener import ClientListener, ConnectionLimits
from odradek.server.network.request import BrokerContext
from support.admin_broker import CLUSTER_ID, SeededRng

DATA_APIS = ("p00_produce", "p01_fetch", "p02_list_offsets", "p03_metadata", "p18_api_versions")
APIS = {api.key: api for api in (import_module(f"odradek.server.api.{name}").API for name in DATA_APIS)}
BROKER_ID = BrokerId(1)


class NoGroups:
    def apply(self, image, delta) -> None: ...


class DataBroker:
    def __init__(self, *, disk=None, settings=None, authorizer=None, apis=APIS, limits=None) -> None:
        self.disk = disk or MemoryDisk()
        self.config = BrokerConfig.parse({"node.id": str(BROKER_ID), **(settings or {})})
        self.authorizer = authorizer or AllowAll()
        self.apis = apis
        self.limits = limits or ConnectionLimits()
        self.clock = SystemClock()
        self.rng = SeededRng()
        self.failures: list[BaseException] = []
        self._clients: list[Client] = []

    async def __aenter__(self) -> Self:
        self.spawner = AsyncioSpawner(lambda _, problem: self.failures.append(problem))
        self.logs = LogDirectory(self.disk, self.rng)
        self.logs.load(lambda _: LogConfig(), self.clock.wall_ms())
        self.commits = GroupCommit(self.spawner, self.clock)
        self.housekeeping = Housekeeping(
            config=self.config, clock=self.clock, spawner=self.spawner, logs=self.logs, commits=self.commits
        )
        self.partitions = PartitionTable(
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            request_sync=self.commits.request,
            remove_later=self.housekeeping.remove_later,
        )
        self.broker = Broker(
            node_id=BROKER_ID,
            cluster_id=CLUSTER_ID,
            listener_name="PLAINTEXT",
            config=self.config,
            clock=self.clock,
            rng=self.rng,
            spawner=self.spawner,
            authorizer=self.authorizer,
            apis=self.apis,
            partitions=self.partitions,
            controller=None,
            channel=None,
            producer_ids=None,
            groups=NoGroups(),
            transactions=NoGroups(),
            transaction_partitions=None,
            image=ClusterImage(cluster_id=CLUSTER_ID),
        )
        self.housekeeping.start(self.partitions)
        self.register(BROKER_ID)
        self.listener = ClientListener(TcpNet(), self.limits)
        await self.listener.bind("127.0.0.1", 0)
        self.listener.serve(Dispatcher(self.broker, BrokerContext).handle)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.writer.close()
        self.broker.answer_parked_fetches()
        await self.listener.stop()
        for client in self._clients:
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()
        await self.housekeeping.stop()
        await self.spawner.close()
        assert self.failures == []

    # The cluster

    def commit(self, *records: Any) -> None:
        image = self.broker.image
        after, delta = image.replay(list(records), Offset(image.offset + len(records)), LeaderEpoch(1))
        self.broker.apply(after, delta)

    def create_topic(self, name: str, partitions: int = 1, **configs: str):
        """Config keys with underscores: flush_messages="1"."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        decision = create_topics(self.broker.image, [topic], defaults=TopicDefaults(), rng=self.rng)
        assert decision.response[0].error_code == 0, decision.response[0].error_message
        self.commit(*decision.records)
        return self.broker.image.topics[name]

    def delete_topic(self, name: str) -> None:
        self.commit(RemoveTopicRecord(topic_id=self.broker.image.topics[name].topic_id))

    def configure_topic(self, name: str, key: str, value: str | None) -> None:
        self.commit(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=value))

    def change_partition(self, name: str, index: int, **fields: Any) -> None:
        topic_id = self.broker.image.topics[name].topic_id
        self.commit(PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields))

    def partition(self, name: str, index: int = 0):
        partition = self.partitions.get(name, index)
        assert partition is not None
        return partition

    def register(self, broker_id: int) -> None:
        registration = Registration(
            broker_id=BrokerId(broker_id),
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes(16),
            listeners=(Listener("PLAINTEXT", "127.0.0.1", 9092, 0),),
            directories=(DirectoryId(bytes([6 + broker_id] * 16)),),
            features={"metadata.version": FeatureRange(7, 29), "kraft.version": FeatureRange(0, 1)},
            rack=None,
        )
        decision = register_broker(self.broker.image, registration)
        self.commit(*decision.records)
        self.commit(*unfence_broker(self.broker.image, registration.broker_id, decision.response).records)

    async def connect(self) -> Client:
        client = Client(self, *await asyncio.open_connection("127.0.0.1", self.listener.port, limit=2**26))
        self._clients.append(client)
        return client


class Client:
    """Uses the table-driven codec, while the data plane uses another codec."""

    def __init__(self, broker: DataBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._broker = broker
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    def send(self, request: Any, version: int) -> int:
        self.correlation_id += 1
        body = request.encode(version)
        self.writer.write(request_frame(type(request).KEY, version, self.correlation_id, "test", body))
        return self.correlation_id

    async def receive(self, response: type, version: int) -> tuple[int, Any]:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        start = 5 if has_tagged_response_header(response.KEY, version) else 4
        return int.from_bytes(frame[:4], "big"), response.decode(frame, version, start)

    async def ask(self, request: Any, response: type, version: int) -> Any:
        sent = self.send(request, version)
        correlation_id, answer = await self.receive(response, version)
        assert correlation_id == sent
        return answer

    async def closed(self) -> bool:
        return await self.reader.read() == b""

    def topic_key(self, topic: str, version: int, by_id_from: int, name_field: str) -> dict[str, Any]:
        if version < by_id_from:
            return {name_field: topic}
        return {"topic_id": self._broker.broker.image.topics[topic].topic_id}

    def produce_request(self, topic: str, *batches: Any, acks: int = 1, version: int = 9, **fields: Any):
        """Batch i goes to partition i. A pair (partition, batch) goes to that partition."""
        data = [pair if isinstance(pair, tuple) else (index, pair) for index, pair in enumerate(batches)]
        return ProduceRequest(
            acks=acks,
            topic_data=[
                TopicProduceData(
                    **self.topic_key(topic, version, 13, "name"),
                    partition_data=[
                        PartitionProduceData(index=index, records=None if data is None else bytes(data))
                        for index, data in data
                    ],
                )
            ],
            **{"timeout_ms": 5000, **fields},
        )

    async def produce(self, topic: str, *batches: Any, acks: int = 1, version: int = 9, **fields: Any):
        """The responses of the partitions."""
        request = self.produce_request(topic, *batches, acks=acks, version=version, **fields)
        answer = await self.ask(request, ProduceResponse, version)
        return answer.responses[0].partition_responses

    def fetch_request(
        self, topic: str, wanted: dict[int, int], *, version: int = 12, partition_max: int = 2**20, **fields: Any
    ):
        """`wanted`: partition -> offset."""
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max)
            for index, offset in wanted.items()
        ]
        topics = [FetchTopic(**self.topic_key(topic, version, 13, "topic"), partitions=partitions)] if wanted else []
        return FetchRequest(topics=topics, **{"max_wait_ms": 0, "min_bytes": 1, **fields})

    async def fetch(self, topic: str, wanted: dict[int, int], *, version: int = 12, **fields: Any):
        """The responses of the partitions, by partition."""
        answer = await self.ask(self.fetch_request(topic, wanted, version=version, **fields), FetchResponse, version)
        return {part.partition_index: part for topic in answer.responses for part in topic.partitions}


def batch(*values: str | bytes, timestamp: int | None = None, key: bytes | None = None, **fields: Any) -> bytearray:
    stamp = SystemClock().wall_ms() if timestamp is None else timestamp
    records = [
        Record(key=key, value=value.encode() if isinstance(value, str) else value, timestamp=stamp) for value in values
    ]
    return encode_batch(records, **fields)
