"""AssignReplicasToDirs: a broker reports on which of its disks its replicas are."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, DirectoryId
from odradek.controller.brokers import check_broker_epoch
from odradek.controller.decision import Decision
from odradek.controller.electorate import Electorate
from odradek.controller.partition_changes import PartitionChange
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import BrokerRegistration, ClusterImage, PartitionImage, TopicImage
from odradek.metadata.replay import changed_partition
from odradek.protocol.messages.p73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from odradek.protocol.metadata_records import PartitionChangeRecord


def assign_replicas_to_dirs(
    image: ClusterImage, request: AssignReplicasToDirsRequest, config: BrokerConfig
) -> Decision[AssignReplicasToDirsResponse]:
    broker = check_broker_epoch(image, BrokerId(request.broker_id), request.broker_epoch)
    assignments = _Assignments(image, broker, config)
    response = AssignReplicasToDirsResponse(directories=[assignments.directory(d) for d in request.directories])
    moved = len(assignments.records)
    sentence = f"broker {broker.broker_id} reported the directories of {moved} replicas" if moved else ""
    return Decision(records=tuple(assignments.records), response=response, sentence=sentence, atomic=False)


class _Assignments:
    def __init__(self, image: ClusterImage, broker: BrokerRegistration, config: BrokerConfig) -> None:
        self._image = image
        self._broker = broker
        self._online = Electorate(image, config)
        self._offline = Electorate(image, config, leaving=broker.broker_id)
        # If a replica is named twice, its last directory applies.
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[PartitionChangeRecord] = []

    def directory(self, wanted: AssignReplicasToDirsRequestDirectoryData) -> AssignReplicasToDirsResponseDirectoryData:
        return AssignReplicasToDirsResponseDirectoryData(
            id=wanted.id,
            topics=[
                AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AssignReplicasToDirsResponsePartitionData(
                            partition_index=partition.partition_index,
                            error_code=self._assign(topic.topic_id, partition.partition_index, DirectoryId(wanted.id)),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in wanted.topics
            ],
        )

    def _assign(self, topic_id: bytes, index: int, directory: DirectoryId) -> ErrorCode:
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self._changed.get((topic_id, index), topic.partitions[index])
        if self._broker.broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        record = self._change(topic, partition, directory)
        if record is not None:
            self._changed[topic_id, index] = changed_partition(partition, record)
            self.records.append(record)
        return ErrorCode.NONE

    def _change(
        self, topic: TopicImage, partition: PartitionImage, directory: DirectoryId
    ) -> PartitionChangeRecord | None:
        online = directory in self._broker.directories
        change = PartitionChange(topic, partition, self._online if online else self._offline)
        change.directories[self._broker.broker_id] = directory
        if not online:
            # A replica on a failed disk must not lead or be in the ISR.
            change.remove(self._broker.broker_id)
        return change.record()
