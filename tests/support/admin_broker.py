"""A broker for the handlers that answer from the cluster image: real image, real decisions, logs in memory, no socket.

`ask` sends a request through the codec of its version in both directions, so a test sees what a client of that
version sees.
"""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from typing import Any

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import KafkaError
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset, TopicPartition
from odradek.base.ports import Volume
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.fencing import unfence_broker
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.log.directory import LogDirectory
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import effective_topic_config
from odradek.metadata.image import ClusterImage, FeatureRange, Listener
from odradek.protocol.messages.p19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from odradek.replication.log_config import log_config
from odradek.replication.partition import Partition
from odradek.replication.partition_table import HostedTopic
from odradek.security.authorizer import AllowAll
from odradek.server.api.controller_table import load_controller_apis
from odradek.server.broker import Broker
from odradek.server.controller.controller_channel import ControllerChannel
from odradek.server.network.request import BrokerContext, ClientSoftware, ControllerContext
from odradek.server.producer_ids import ProducerIds
from support.seeded_rng import SeededRng

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FEATURES = {"metadata.version": (7, 29), "kraft.version": (0, 1)}

ADMIN_APIS = (
    "p02_list_offsets",
    "p03_metadata",
    "p18_api_versions",
    "p19_create_topics",
    "p20_delete_topics",
    "p21_delete_records",
    "p22_init_producer_id",
    "p23_offset_for_leader_epoch",
    "p32_describe_configs",
    "p33_alter_configs",
    "p34_alter_replica_log_dirs",
    "p35_describe_log_dirs",
    "p37_create_partitions",
    "p43_elect_leaders",
    "p44_incremental_alter_configs",
    "p57_update_features",
    "p60_describe_cluster",
    "p61_describe_producers",
    "p71_get_telemetry_subscriptions",
    "p72_push_telemetry",
    "p74_list_config_resources",
    "p75_describe_topic_partitions",
)
APIS = {api.key: api for api in (import_module(f"odradek.server.api.{name}").API for name in ADMIN_APIS)}


class StandingClock:
    def monotonic_ms(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0


class Denying:
    """Denies the requests for which `denies(operation, resource_type, name)` is true, and remembers all requests."""

    def __init__(self, denies) -> None:
        self.denies = denies
        self.asked = []

    def authorize(self, principal, operation, resource_type, name) -> bool:
        self.asked.append((principal, operation, resource_type, name))
        return not self.denies(operation, resource_type, name)


class ImmediateController:
    """Decides and commits at once."""

    def __init__(self, admin: AdminBroker) -> None:
        self._admin = admin
        self.refuses: Exception | None = None

    def submit(self, decide):
        if self.refuses is not None:
            raise self.refuses
        decision = decide(self._admin.broker.image)
        self._admin.commit(decision.records)
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(decision.response)
        return answer


class ImmediateSpawner:
    async def blocking(self, call, *args):
        return call(*args)


class PutPartitions:
    """The partitions that a test has added."""

    def __init__(self) -> None:
        self.topics = {}
        self.topics_by_id = {}
        self.location = "/records"
        self.traffic = None
        self.disk_error: OSError | None = None

    def put(self, partition) -> None:
        hosted = self.topics.setdefault(partition.topic, HostedTopic(partition.topic, partition.topic_id))
        self.topics_by_id[partition.topic_id] = hosted
        hosted.partitions[partition.index] = partition

    def get(self, topic, index):
        hosted = self.topics.get(topic)
        return None if hosted is None else hosted.partitions.get(index)

    def apply(self, image, delta) -> None:
        """Does nothing: only tests add partitions."""

    def all(self):
        return [partition for hosted in self.topics.values() for partition in hosted.partitions.values()]

    def volume(self):
        if self.disk_error is not None:
            raise self.disk_error
        return Volume(1000, 400)


class NoGroups:
    def apply(self, image, delta) -> None:
        pass

    def shards(self):
        return []


class OneConnection:
    client_host = "127.0.0.1"
    client_port = 50_000
    software = ClientSoftware()
    principal = "User:ANONYMOUS"
    observer = None


class Leading:
    leader_id = BrokerId(1)


def own_channel(broker) -> ControllerChannel:
    """The channel to the controller in the same node."""
    return ControllerChannel(
        node_id=BrokerId(1),
        quorum=Leading(),
        peers=None,
        apis=load_controller_apis(),
        context=lambda connection, version: ControllerContext(broker(), connection, version, 0, None),
    )


class AdminBroker:
    def __init__(self, *, settings=None, brokers: int = 1, authorizer=None, features=FEATURES) -> None:
        self.features = {name: FeatureRange(*levels) for name, levels in features.items()}
        controller = ImmediateController(self)
        self.partitions = PutPartitions()
        self.logs = LogDirectory(MemoryDisk(), SeededRng())
        self.controller = controller
        self.broker = Broker(
            node_id=BrokerId(1),
            cluster_id=CLUSTER_ID,
            listener_name="PLAINTEXT",
            config=BrokerConfig.parse({"node.id": "1", **(settings or {})}),
            clock=StandingClock(),
            rng=SeededRng(),
            spawner=ImmediateSpawner(),
            authorizer=authorizer or AllowAll(),
            apis=APIS,
            partitions=self.partitions,
            controller=controller,
            channel=own_channel(lambda: self.broker),
            producer_ids=None,
            groups=NoGroups(),
            transactions=NoGroups(),
            transaction_partitions=None,
            image=ClusterImage(cluster_id=CLUSTER_ID),
        )
        for broker_id in range(1, brokers + 1):
            self.register(broker_id)
        epoch = self.broker.image.brokers[1].broker_epoch
        self.broker.producer_ids = ProducerIds(self.broker.channel, BrokerId(1), epoch)

    def register(self, broker_id: int, *, unfenced: bool = True, listener: str = "PLAINTEXT") -> None:
        registration = Registration(
            broker_id=BrokerId(broker_id),
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes([broker_id] * 16),
            listeners=(Listener(listener, f"host{broker_id}", 9092 + broker_id, 0),),
            directories=(DirectoryId(bytes([100 + broker_id] * 16)),),
            features=self.features,
            rack=f"rack{broker_id}",
        )
        decision = register_broker(self.broker.image, registration)
        self.commit(decision.records)
        if unfenced:
            self.commit(unfence_broker(self.broker.image, registration.broker_id, decision.response).records)

    def commit(self, records) -> None:
        if records:
            image = self.broker.image
            offset = Offset(image.offset + len(records))
            self.broker.apply(*image.replay(list(records), offset, LeaderEpoch(1)))

    def create_topic(self, name: str, partitions: int = 1, *, replicas=None, configs=None):
        """`replicas`: the broker ids of every partition, the preferred leader first."""
        assigned = replicas is not None
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if assigned else partitions,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index in range(partitions)
                if assigned
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        decision = create_topics(self.broker.image, [topic], defaults=TopicDefaults(), rng=self.broker.rng)
        assert decision.response[0].error_code == 0, decision.response[0].error_message
        self.commit(decision.records)
        return self.broker.image.topics[name]

    def host(self, name: str, index: int = 0) -> Partition:
        """Adds a replica of this partition to this broker, with a log in memory."""
        topic = self.broker.image.topics[name]
        config = effective_topic_config(self.broker.image, name, self.broker.config)
        log = self.logs.create_log(
            TopicPartition(name, index), topic.topic_id, log_config(config, self.broker.config), wall_ms=0
        )
        partition = Partition(
            broker_id=self.broker.node_id,
            topic=name,
            index=index,
            topic_id=topic.topic_id,
            log=log,
            high_watermark=Offset(0),
            min_isr=1,
            request_sync=lambda _: None,
        )
        partition.apply(topic.partitions[index], 0)
        self.partitions.put(partition)
        return partition

    def ask(self, key: int, request: Any, version: int) -> Any:
        api = APIS[key]
        decoded = api.request.decode(request.encode(version), version)
        ctx = BrokerContext(self.broker, OneConnection(), version, 7, "test")

        async def answer():
            try:
                response = api.handle(ctx, decoded)
                return await response if inspect.isawaitable(response) else response
            except KafkaError as refused:
                return api.refuse(ctx, decoded, refused)

        response = asyncio.run(answer())
        return type(response).decode(response.encode(version), version)
