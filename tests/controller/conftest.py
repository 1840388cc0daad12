from __future__ import annotations

import random

import pytest

from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.decision import Decision
from odradek.controller.fencing import unfence_broker
from odradek.metadata.features import bootstrap_records
from odradek.metadata.image import ClusterImage, Listener

CLUSTER = "cluster"


class SeededRng:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Cluster:
    """An image and every record that led to it."""

    def __init__(self) -> None:
        self.image = ClusterImage(cluster_id=CLUSTER)
        self.records: list = []
        self.rng = SeededRng()
        self.delta = None
        self.take(Decision(records=bootstrap_records(), response=None))

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
        """`clean`: it comes back after a stop in order. `disk`: another number is another disk, with nothing on it."""
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


@pytest.fixture(scope="session")
def new_cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def empty() -> Cluster:
    return Cluster()


@pytest.fixture
def cluster() -> Cluster:
    """One broker, number 1, as Odradek is for now."""
    cluster = Cluster()
    cluster.add_broker(1)
    return cluster
