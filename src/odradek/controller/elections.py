"""Who leads a partition: by request of an operator, and when a broker goes or comes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.invariants import invariant
from odradek.controller.decision import Decision
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.protocol.messages.p43_elect_leaders import PartitionResult, ReplicaElectionResult, TopicPartitions
from odradek.protocol.metadata_records import PartitionChangeRecord

# Elected although records may be missing.
RECOVERING = 1


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, election: ElectionType, wanted: Sequence[TopicPartitions] | None
) -> Decision[list[ReplicaElectionResult]]:
    """None asks for every partition; those that need no election are then left out of the answer."""
    records: list[PartitionChangeRecord] = []
    results: list[ReplicaElectionResult] = []
    told: list[str] = []
    asked = (
        [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
        if wanted is None
        else [(request.topic, request.partitions) for request in wanted]
    )
    for name, partitions in asked:
        outcomes: list[PartitionResult] = []
        for index in partitions:
            try:
                record, sentence = _elect(image, election, name, index)
                records.append(record)
                told.append(sentence)
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


def _elect(image: ClusterImage, election: ElectionType, name: str, index: int) -> tuple[PartitionChangeRecord, str]:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    preferred = partition.replicas[0]
    if election is ElectionType.PREFERRED:
        if partition.leader == preferred:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        if not _may_lead(image, partition, preferred):
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=preferred)
        return record, f"elected {preferred} for {name}-{index}: it is the preferred leader and in sync"
    if partition.leader != NO_BROKER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    return _elect_unclean(image, topic, partition)


def _elect_unclean(
    image: ClusterImage, topic: TopicImage, partition: PartitionImage
) -> tuple[PartitionChangeRecord, str]:
    alive = [broker_id for broker_id in partition.replicas if _is_active(image, broker_id)]
    if not alive:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    in_sync = [broker_id for broker_id in alive if broker_id in partition.isr]
    name = f"{topic.name}-{partition.index}"
    if in_sync:
        record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id, leader=in_sync[0])
        return record, f"elected {in_sync[0]} for {name}: it had no leader and {in_sync[0]} is in sync"
    record = PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        leader=alive[0],
        isr=[alive[0]],
        leader_recovery_state=RECOVERING,
    )
    return record, f"elected {alive[0]} for {name}, uncleanly: no replica in sync is alive, records may be lost"


def without_broker(image: ClusterImage, broker_id: BrokerId) -> list[PartitionChangeRecord]:
    """The broker is fenced: it leaves every ISR but the one it is alone in, and leads nothing."""
    records: list[PartitionChangeRecord] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            if broker_id not in partition.isr:
                continue
            others: list[int] = [member for member in partition.isr if member != broker_id]
            record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id)
            if others:
                record.isr = others
            if partition.leader == broker_id:
                heirs = [r for r in partition.replicas if r in others and _is_active(image, r)]
                record.leader = heirs[0] if heirs else NO_BROKER
            if others or partition.leader == broker_id:
                records.append(record)
    return records


def with_broker(image: ClusterImage, broker_id: BrokerId) -> list[PartitionChangeRecord]:
    """The broker may lead again: it takes the partitions that have no leader and of which nobody knows more."""
    invariant(broker_id in image.brokers, f"broker {broker_id} is not registered")
    return [
        record
        for topic in image.topics.values()
        for partition in topic.partitions
        if partition.leader == NO_BROKER and (record := _led_again_by(broker_id, topic, partition))
    ]


def _led_again_by(broker_id: BrokerId, topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord | None:
    record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id, leader=broker_id)
    if broker_id in partition.isr:
        return record
    # Kafka, with eligible leaders (KIP-966), empties the ISR when its last member stops.
    record.isr, record.eligible_leader_replicas, record.last_known_elr = [broker_id], [], []
    if broker_id in partition.elr:
        return record
    if not partition.isr and not partition.elr and partition.last_known_elr == (broker_id,):
        record.leader_recovery_state = RECOVERING
        return record
    return None


def _may_lead(image: ClusterImage, partition: PartitionImage, broker_id: BrokerId) -> bool:
    return broker_id in partition.isr and _is_active(image, broker_id)


def _is_active(image: ClusterImage, broker_id: BrokerId) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active
