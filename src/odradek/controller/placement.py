"""Chooses the brokers for the replicas of new partitions.

Round robin over racks from a random start, and over the brokers inside a rack: the replicas of a partition are in
different racks, and leaders are spread. The first replica is on a broker that can lead at once; fenced brokers come
last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch
from odradek.base.ports import Rng
from odradek.metadata.image import UNASSIGNED_DIRECTORY, BrokerRegistration, ClusterImage, PartitionImage


def place(image: ClusterImage, first: int, count: int, replication_factor: int, rng: Rng) -> list[PartitionImage]:
    """Places partitions `first` to `first + count - 1`. The leader is the first replica that may lead."""
    brokers = image.brokers
    if replication_factor > len(brokers):
        raise _cannot_place(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered.",
        )
    if not any(broker.active for broker in brokers.values()):
        raise _cannot_place(replication_factor, "All brokers are currently fenced or in controlled shutdown.")
    racks = _racks(brokers, rng)
    start = rng.below(len(racks))
    return [new_partition(image, first + n, _stripe(racks, start + n, replication_factor)) for n in range(count)]


def new_partition(image: ClusterImage, index: int, replicas: Sequence[BrokerId]) -> PartitionImage:
    isr = tuple(broker_id for broker_id in replicas if image.brokers[broker_id].active)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown.",
        )
    return PartitionImage(
        index=index,
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        directories=tuple(first_directory(image.brokers[broker_id]) for broker_id in replicas),
    )


def check_assignment(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None) -> list[BrokerId]:
    """Checks a manual assignment of one partition. All partitions of a topic have the same number of replicas."""
    if not replicas:
        raise _bad_assignment("includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in image.brokers:
            raise _bad_assignment(f"includes broker {broker_id}, but no such broker is registered.")
        if replicas.count(broker_id) > 1:
            raise _bad_assignment(f"includes the broker {broker_id} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )
    return [BrokerId(broker_id) for broker_id in replicas]


class _Turns:
    """Round robin over brokers from a random start: each partition begins one broker after the previous partition."""

    __slots__ = ("brokers", "first", "taken")

    def __init__(self, brokers: list[BrokerId], rng: Rng) -> None:
        self.brokers = brokers
        self.first = rng.below(len(brokers)) if brokers else 0
        self.taken = 0

    def begin(self) -> None:
        self.first += 1
        self.taken = 0

    def next_unused(self) -> BrokerId | None:
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.first + self.taken - 1) % len(self.brokers)]


class _Rack(NamedTuple):
    active: _Turns
    fenced: _Turns


def _racks(brokers: Mapping[int, BrokerRegistration], rng: Rng) -> list[_Rack]:
    by_rack: dict[str, list[BrokerRegistration]] = {}
    for broker_id in sorted(brokers):
        by_rack.setdefault(brokers[broker_id].rack or "", []).append(brokers[broker_id])
    return [
        _Rack(
            _Turns([broker.broker_id for broker in members if broker.active], rng),
            _Turns([broker.broker_id for broker in members if not broker.active], rng),
        )
        for _, members in sorted(by_rack.items())
    ]


def _stripe(racks: list[_Rack], start: int, replication_factor: int) -> list[BrokerId]:
    chosen: list[BrokerId] = []
    turn = start
    for rack in racks:
        rack.active.begin()
        rack.fenced.begin()
    while len(chosen) < replication_factor:
        rack = racks[turn % len(racks)]
        turn += 1
        broker_id = rack.active.next_unused()
        if broker_id is None and chosen:
            broker_id = rack.fenced.next_unused()
        if broker_id is not None:
            chosen.append(broker_id)
    return chosen


def first_directory(broker: BrokerRegistration) -> DirectoryId:
    """The directory of a new replica. A broker with several directories chooses one and reports it."""
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIRECTORY


def _cannot_place(replication_factor: int, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {why}"
    )


def _bad_assignment(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {why}")
