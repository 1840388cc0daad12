"""Adds partitions to a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.limits import metadata_records_per_decision_max
from odradek.base.ports import Rng
from odradek.controller.decision import Decision
from odradek.controller.partition_changes import without
from odradek.controller.placement import check_assignment, new_partition, place
from odradek.controller.topics import check_named_once, partition_record
from odradek.metadata.image import ClusterImage
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from odradek.protocol.schema import Message


def create_partitions(
    image: ClusterImage, wanted: Sequence[CreatePartitionsTopic], *, rng: Rng, validate_only: bool = False
) -> Decision[list[CreatePartitionsTopicResult]]:
    """One result per distinct name, in the order of the request."""
    times = Counter(topic.name for topic in wanted)
    records: list[Message] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    told: list[str] = []
    for request in wanted:
        if request.name in results:
            continue
        try:
            check_named_once(request.name, times)
            added = _grow(image, request, rng, metadata_records_per_decision_max - len(records))
        except KafkaError as refused:
            results[request.name] = CreatePartitionsTopicResult(
                name=request.name, error_code=refused.code, error_message=refused.message or None
            )
            continue
        records += added
        results[request.name] = CreatePartitionsTopicResult(name=request.name, error_message=None)
        told.append(f"added {len(added)} partition(s) to topic {request.name}, which now has {request.count}")
    if validate_only:
        return Decision(response=list(results.values()))
    return Decision(records=tuple(records), response=list(results.values()), sentence="; ".join(told))


def _grow(image: ClusterImage, request: CreatePartitionsTopic, rng: Rng, most: int) -> list[Message]:
    topic = image.topics.get(request.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if request.count == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if request.count < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {request.count} would not be an increase.",
        )
    additional = request.count - have
    if additional > most:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{additional} partitions are too many for one request.")
    first = topic.partitions[0]
    replication_factor = len(without(first.replicas, first.removing))
    if request.assignments is None:
        added = place(image, have, additional, replication_factor, rng)
    elif len(request.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
            "assignment(s) were specified.",
        )
    else:
        added = [
            new_partition(image, index, check_assignment(image, assignment.broker_ids, replication_factor))
            for index, assignment in enumerate(request.assignments, have)
        ]
    return [partition_record(topic.topic_id, partition) for partition in added]
