"""API 34, AlterReplicaLogDirs, versions 1-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    name: str = string("1+", default="")
    partitions: list[int] = array(int32, "1+", factory=list)


class AlterReplicaLogDir(Struct):
    path: str = string("1+", default="")
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "1+", factory=list)


class AlterReplicaLogDirsRequest(Message, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "1+", factory=list)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string("1+", default="")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "1+", factory=list)


class AlterReplicaLogDirsResponse(Message, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = int32("1+", default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "1+", factory=list)
