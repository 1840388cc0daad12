from __future__ import annotations

import pytest

from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.decision import Decision
from odradek.controller.fencing import fence_broker, unfence_broker
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.features import ELIGIBLE_LEADERS, bootstrap_records
from odradek.metadata.image import ClusterImage, Listener, PartitionImage
from odradek.protocol.messages.p19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from odradek.protocol.metadata_records import FeatureLevelRecord
from support.seeded_rng import SeededRng

CLUSTER = "cluster"


class Cluster:
    """A cluster image, and the records that produced it."""

    def __init__(self) -> None:
        self.image = ClusterImage(cluster_id=CLUSTER)
        self.records: list = []
        self.rng = SeededRng()
        self.delta = None
        self.take(Decision(records=bootstrap_records(), response=None))

    def forget_eligible_leaders(self) -> None:
        """Disables the feature, as in a directory from before KIP-966."""
        self.take(Decision(records=(FeatureLevelRecord(name=ELIGIBLE_LEADERS, feature_level=0),), response=None))

    def take(self, decision: Decision):
        self.records += decision.records
        self.image, self.delta = self.image.replay(
            decision.records, Offset(self.image.offset + len(decision.records)), LeaderEpoch(1)
        )
        return decision.response

    def add_broker(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        unfence: bool = True,
        incarnation: int = 0,
        clean: bool = False,
        disk: int = 0,
    ) -> int:
        """`clean`: it returns after a clean stop. `disk`: another number means another, empty disk."""
        previous = self.image.brokers[broker_id].broker_epoch if clean else -1
        registration = Registration(
            broker_id=BrokerId(broker_id),
            cluster_id=CLUSTER,
            incarnation_id=bytes([broker_id, incarnation]) * 8,
            listeners=(Listener("PLAINTEXT", "localhost", 9092, 0),),
            directories=(DirectoryId(bytes([broker_id, disk or broker_id]) * 8),),
            rack=rack,
            previous_broker_epoch=previous,
        )
        epoch = self.take(register_broker(self.image, registration))
        if unfence:
            self.take(unfence_broker(self.image, BrokerId(broker_id), epoch))
        return epoch

    def add_topic(self, name: str, *replicas: list[int], min_isr: int = 1, unclean: bool = False) -> None:
        """One partition for each list of replicas."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=b) for n, b in enumerate(replicas)],
            configs=[
                CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr)),
                CreatableTopicConfig(name="unclean.leader.election.enable", value=str(unclean).lower()),
            ],
        )
        (result,) = self.take(create_topics(self.image, [topic], defaults=TopicDefaults(), rng=self.rng))
        assert result.error_code == 0, result.error_message

    def partition(self, name: str = "t", index: int = 0) -> PartitionImage:
        return self.image.topics[name].partitions[index]

    def epoch(self, broker_id: int) -> int:
        return self.image.brokers[broker_id].broker_epoch

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.take(fence_broker(self.image, BrokerId(broker_id), self.epoch(broker_id), "of the test"))

    def unfence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.take(unfence_broker(self.image, BrokerId(broker_id), self.epoch(broker_id)))


@pytest.fixture(scope="session")
def new_cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def empty() -> Cluster:
    return Cluster()


@pytest.fixture
def cluster() -> Cluster:
    """One broker, with id 1."""
    cluster = Cluster()
    cluster.add_broker(1)
    return cluster


@pytest.fixture
def three() -> Cluster:
    """Brokers 1, 2 and 3, with eligible leaders; topic t has one replica on each."""
    cluster = Cluster()
    for broker_id in (1, 2, 3):
        cluster.add_broker(broker_id)
    cluster.add_topic("t", [1, 2, 3], min_isr=2)
    return cluster
