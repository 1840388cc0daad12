"""Moves replicas to other brokers in three steps.

First the new replicas are added. They fetch until the leader proposes an ISR with all of them. That proposal completes
the reassignment (see `PartitionChange`) and removes the old replicas. Until then it can be cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER
from odradek.controller.decision import Decision
from odradek.controller.elections import find_partition
from odradek.controller.electorate import Electorate
from odradek.controller.partition_changes import Election, PartitionChange, without
from odradek.controller.placement import check_assignment, first_directory
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage, PartitionImage, TopicImage
from odradek.metadata.replay import LEADER_UNCHANGED
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.protocol.messages.p46_list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.protocol.metadata_records import PartitionChangeRecord


def alter_partition_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest, config: BrokerConfig
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Replicas of None cancel an ongoing reassignment."""
    moves = _Moves(image, config, may_resize=request.allow_replication_factor_change)
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[moves.partition(topic.name, partition) for partition in topic.partitions]
        )
        for topic in request.topics
    ]
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )
    return Decision(records=tuple(moves.records), response=response, sentence="; ".join(moves.told))


def list_partition_reassignments(
    image: ClusterImage, wanted: Sequence[ListPartitionReassignmentsTopics] | None
) -> ListPartitionReassignmentsResponse:
    """None lists all ongoing reassignments."""
    asked: list[tuple[TopicImage, Sequence[int]]] = []
    if wanted is None:
        asked = [(topic, range(len(topic.partitions))) for topic in image.topics.values()]
    else:
        asked = [(image.topics[named.name], named.partition_indexes) for named in wanted if named.name in image.topics]
    topics = [OngoingTopicReassignment(name=topic.name, partitions=_moving(topic, only)) for topic, only in asked]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[t for t in topics if t.partitions])


def _moving(topic: TopicImage, only: Sequence[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=partition.index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for partition in topic.partitions
        if partition.index in only and _is_moving(partition)
    ]


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


class _Moves:
    def __init__(self, image: ClusterImage, config: BrokerConfig, *, may_resize: bool) -> None:
        self._image = image
        self._electorate = Electorate(image, config)
        self._may_resize = may_resize
        self._seen: dict[tuple[str, int], None] = {}
        self.records: list[PartitionChangeRecord] = []
        self.told: list[str] = []

    def partition(self, name: str, wanted: ReassignablePartition) -> ReassignablePartitionResponse:
        index = wanted.partition_index
        try:
            self._check_named_once(name, index)
            topic, partition = find_partition(self._image, name, index)
            if wanted.replicas is None:
                record = self._cancelled(topic, partition)
                told = f"cancelled the reassignment of {name}-{index}"
            else:
                record = self._moved(topic, partition, wanted.replicas)
                told = f"{name}-{index} moves to {', '.join(map(str, wanted.replicas))}"
        except KafkaError as refused:
            return ReassignablePartitionResponse(
                partition_index=index, error_code=refused.code, error_message=refused.message or refused.code.name
            )
        if record is not None:
            self.records.append(record)
            self.told.append(told)
        return ReassignablePartitionResponse(partition_index=index, error_message=None)

    def _check_named_once(self, name: str, index: int) -> None:
        if (name, index) in self._seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partition {name}-{index} is named more than once.")
        self._seen[name, index] = None

    def _moved(
        self, topic: TopicImage, partition: PartitionImage, wanted: Sequence[int]
    ) -> PartitionChangeRecord | None:
        target = check_assignment(self._image, wanted, None)
        staying = [b for b in partition.replicas if b not in partition.removing]
        if not self._may_resize and len(target) != len(staying):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(staying)} to {len(target)}",
            )
        # Replicas that an ongoing reassignment adds are still new: they count once they are in sync.
        settled = [b for b in partition.replicas if b not in partition.adding]
        change = PartitionChange(topic, partition, self._electorate)
        change.adding = sorted(b for b in target if b not in settled)
        change.removing = sorted(b for b in partition.replicas if b not in target)
        change.replicas = [*target, *change.removing]
        for broker_id in target:
            if broker_id not in partition.replicas:
                change.directories[broker_id] = first_directory(self._image.brokers[broker_id])
        return change.record()

    def _cancelled(self, topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord | None:
        if not _is_moving(partition):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        change = PartitionChange(topic, partition, self._electorate)
        if self._electorate.allows_unclean(topic):
            change.election = Election.UNCLEAN
        change.replicas = without(partition.replicas, partition.adding)
        change.isr = without(partition.isr, partition.adding)
        change.adding, change.removing = [], []
        staying = change.replicas
        record = change.record()
        # Without an in-sync replica, an eligible leader has all data; without one, the last leader has the most.
        knowing = partition.isr or partition.elr or partition.last_known_elr
        forgotten = knowing and not any(member in staying for member in knowing)
        unled = partition.leader != NO_BROKER and record is not None and record.leader == NO_BROKER
        if unled or (forgotten and (record is None or record.leader in (NO_BROKER, LEADER_UNCHANGED))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}-{partition.index} because it would require "
                "an unclean leader election.",
            )
        return record
