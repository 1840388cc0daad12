"""DescribeLogDirs 1-5: how large the logs here are, and how much room their disk has.

2 is flexible, 3 has a top-level error, 4 the size of the volume, 5 whether the directory takes no new partitions, which
never happens here. A request without topics asks for every log. A follower's lag is the number of records up to the
high watermark it knows that it does not have yet; -1 stands for a log that failed. A directory whose disk does not
answer has KAFKA_STORAGE_ERROR and no logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.replication.partition import Partition
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.broker import Broker
from odradek.server.network.request import Api, BrokerContext

UNKNOWN_LAG = -1


async def handle(ctx: BrokerContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    location = ctx.broker.partitions.location
    try:
        volume = await ctx.broker.spawner.blocking(ctx.broker.partitions.volume)
    except OSError:
        failed = DescribeLogDirsResult(log_dir=location, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
        return DescribeLogDirsResponse(results=[failed])
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _asked_for(ctx.broker, request):
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(_partition(partition))
    directory = DescribeLogDirsResult(
        log_dir=location,
        topics=list(topics.values()),
        total_bytes=volume.total_bytes,
        usable_bytes=volume.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[directory])


def _asked_for(broker: Broker, request: DescribeLogDirsRequest) -> Iterator[Partition]:
    """Partitions that this broker does not have are left out."""
    if request.topics is None:
        yield from broker.partitions.all()
        return
    named = dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)
    for topic, index in named:
        partition = broker.partitions.get(topic, index)
        if partition is not None:
            yield partition


def _partition(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    lag = max(0, partition.high_watermark - log.log_end_offset) if log.offline is None else UNKNOWN_LAG
    return DescribeLogDirsPartition(partition_index=partition.index, partition_size=log.size_bytes, offset_lag=lag)


API = Api(key=35, versions=(1, 5), request=DescribeLogDirsRequest, handle=handle)
