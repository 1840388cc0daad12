"""API 73, AssignReplicasToDirs, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, uuid


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[AssignReplicasToDirsRequestPartitionData] = array(
        AssignReplicasToDirsRequestPartitionData, "0+", factory=list
    )


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: bytes = uuid("0+", default=ZERO_UUID)
    topics: list[AssignReplicasToDirsRequestTopicData] = array(AssignReplicasToDirsRequestTopicData, "0+", factory=list)


class AssignReplicasToDirsRequest(Message, key=73, versions="0", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = array(
        AssignReplicasToDirsRequestDirectoryData, "0+", factory=list
    )


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(
        AssignReplicasToDirsResponsePartitionData, "0+", factory=list
    )


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: bytes = uuid("0+", default=ZERO_UUID)
    topics: list[AssignReplicasToDirsResponseTopicData] = array(
        AssignReplicasToDirsResponseTopicData, "0+", factory=list
    )


class AssignReplicasToDirsResponse(Message, key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(
        AssignReplicasToDirsResponseDirectoryData, "0+", factory=list
    )
