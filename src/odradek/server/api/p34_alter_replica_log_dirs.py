"""AlterReplicaLogDirs 1-2: move this broker's replicas to other data directories.

2 is flexible. A broker has one data directory, so the only move that succeeds is the one to where the replica is. The
rest is refused as Kafka does: the directory is looked at first, then the replica. A partition that is named for several
directories goes to the last of them.
"""

from __future__ import annotations

from posixpath import normpath

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.broker import Broker
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    may_alter = ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    here = normpath(ctx.broker.partitions.location)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, index), directory in _moves(request).items():
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if may_alter:
            is_here = normpath(directory) == here
            error = _move(ctx.broker, topic, index) if is_here else ErrorCode.LOG_DIR_NOT_FOUND
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _moves(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _move(broker: Broker, topic: str, index: int) -> ErrorCode:
    """To the directory of this broker."""
    partition = broker.partitions.get(topic, index)
    if partition is not None:
        return ErrorCode.NONE if partition.log.offline is None else ErrorCode.KAFKA_STORAGE_ERROR
    image = broker.image.topics.get(topic)
    if image is None or not 0 <= index < len(image.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.REPLICA_NOT_AVAILABLE


API = Api(key=34, versions=(1, 2), request=AlterReplicaLogDirsRequest, handle=handle)
