"""Elects partition leaders: on request, and when brokers leave or return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId, DirectoryId
from odradek.base.invariants import invariant
from odradek.controller import safeguards
from odradek.controller.decision import Decision
from odradek.controller.electorate import Electorate, directory_of
from odradek.controller.partition_changes import Election, PartitionChange
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ClusterImage,
    ImageDelta,
    PartitionImage,
    TopicImage,
)
from odradek.protocol.messages.p43_elect_leaders import PartitionResult, ReplicaElectionResult, TopicPartitions
from odradek.protocol.metadata_records import PartitionChangeRecord

DEFAULTS = BrokerConfig()


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage,
    election: ElectionType,
    wanted: Sequence[TopicPartitions] | None,
    config: BrokerConfig = DEFAULTS,
) -> Decision[list[ReplicaElectionResult]]:
    """None means all partitions; the response then omits partitions that need no election."""
    electorate = Electorate(image, config)
    records: list[PartitionChangeRecord] = []
    results: list[ReplicaElectionResult] = []
    told: list[str] = []
    asked = (
        [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
        if wanted is None
        else [(request.topic, dict.fromkeys(request.partitions)) for request in wanted]
    )
    for name, partitions in asked:
        outcomes: list[PartitionResult] = []
        for index in partitions:
            try:
                record = _elect(electorate, election, *find_partition(image, name, index))
                records.append(record)
                told.append(f"elected {record.leader} for {name}-{index} on request{_how(record)}")
                outcomes.append(PartitionResult(partition_id=index, error_message=None))
            except KafkaError as refused:
                if wanted is None and refused.code is ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                outcomes.append(
                    PartitionResult(
                        partition_id=index, error_code=refused.code, error_message=refused.message or refused.code.name
                    )
                )
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    return Decision(records=tuple(records), response=results, sentence="; ".join(told), atomic=False)


def find_partition(image: ClusterImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return topic, topic.partitions[index]


def _elect(
    electorate: Electorate, election: ElectionType, topic: TopicImage, partition: PartitionImage
) -> PartitionChangeRecord:
    preferred = election is ElectionType.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_BROKER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    change = PartitionChange(topic, partition, electorate)
    change.election = Election.PREFERRED if preferred else Election.UNCLEAN
    record = change.record()
    if record is None:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    return record


def _how(record: PartitionChangeRecord) -> str:
    return ", unclean: records may be lost" if record.leader_recovery_state == 1 else ""


class ElectedOutsideIsr(NamedTuple):
    """A new leader that was not in the ISR. Unless it was eligible (KIP-966), it may lack committed records."""

    topic: str
    partition: int
    leader: BrokerId
    was_eligible: bool


def elected_outside_isr(delta: ImageDelta) -> Iterator[ElectedOutsideIsr]:
    for topic in delta.changed:
        for index, (before, after) in enumerate(zip(topic.before.partitions, topic.after.partitions, strict=False)):
            if before is not after and after.leader not in (before.leader, NO_BROKER, *before.isr):
                yield ElectedOutsideIsr(topic.after.name, index, after.leader, after.leader in before.elr)


def for_leaderless(image: ClusterImage, config: BrokerConfig = DEFAULTS) -> list[PartitionChangeRecord]:
    """Elects leaders for partitions without one, after unclean elections became allowed."""
    electorate = Electorate(image, config)
    changes = partition_changes(image, electorate, lambda partition: partition.leader == NO_BROKER)
    return [change for change in changes if change.leader >= 0]


def without_broker(
    image: ClusterImage, broker_id: BrokerId, config: BrokerConfig = DEFAULTS
) -> list[PartitionChangeRecord]:
    """Removes a fenced or leaving broker from all leaderships and ISRs, except from an ISR that would become empty."""
    return partition_changes(
        image,
        Electorate(image, config, leaving=broker_id),
        lambda partition: broker_id in partition.isr or partition.leader == broker_id,
        lambda change: change.remove(broker_id) if safeguards.fenced_broker_leaves_isr() else None,
    )


def with_broker(
    image: ClusterImage, broker_id: BrokerId, config: BrokerConfig = DEFAULTS
) -> list[PartitionChangeRecord]:
    """The broker may lead again: elects it for leaderless partitions of which no other replica has more data."""
    invariant(broker_id in image.brokers, f"broker {broker_id} is not registered")
    return partition_changes(
        image,
        Electorate(image, config, arriving=broker_id),
        lambda partition: partition.leader == NO_BROKER and broker_id in partition.replicas,
    )


def after_restart(
    image: ClusterImage,
    broker_id: BrokerId,
    directories: Sequence[DirectoryId],
    *,
    clean: bool,
    config: BrokerConfig = DEFAULTS,
) -> list[PartitionChangeRecord]:
    """Changes for a new incarnation of the broker, which may have less data than the old one.

    After an unclean stop it may lack the end of its logs. A replica in a directory that it no longer has is lost.
    """
    electorate = Electorate(image, config, leaving=broker_id)

    # A failed replica is in one of the broker's old directories. These are unknown if the broker was unregistered.
    known = image.brokers.get(broker_id)
    none_missing = known is not None and all(directory in directories for directory in known.directories)

    def lost(partition: PartitionImage) -> bool:
        directory = directory_of(partition, broker_id)
        if directory is None:
            return False
        if not electorate.has_eligible_leaders and partition.isr == (broker_id,):
            # Only the ISR says who has all data. Stays assigned to its old disk, so that it is not elected when empty.
            return False
        return directory not in directories and not (directory == LOST_DIRECTORY and none_missing)

    def concerns(partition: PartitionImage) -> bool:
        if not electorate.has_eligible_leaders:
            return broker_id in (*partition.isr, partition.leader) or lost(partition)
        return broker_id in (*partition.isr, *partition.elr, partition.leader) or lost(partition)

    def alter(change: PartitionChange) -> None:
        if broker_id in change.isr:
            change.remove(broker_id)
        if not clean and safeguards.forgets_eligible_after_unclean_stop():
            change.stopped_uncleanly = broker_id
        if lost(change.was):
            change.lost = broker_id
            # With a single directory, the replica will be created there.
            change.directories[broker_id] = directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY

    return partition_changes(image, electorate, concerns, alter)


def partition_changes(
    image: ClusterImage,
    electorate: Electorate,
    concerns: Callable[[PartitionImage], bool],
    alter: Callable[[PartitionChange], None] = lambda _: None,
) -> list[PartitionChangeRecord]:
    records: list[PartitionChangeRecord] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            if concerns(partition):
                change = PartitionChange(topic, partition, electorate)
                if electorate.allows_unclean(topic):
                    change.election = Election.UNCLEAN
                alter(change)
                record = change.record()
                if record is not None:
                    records.append(record)
    return records
