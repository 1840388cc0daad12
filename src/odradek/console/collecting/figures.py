"""Reads log ends, disks and groups from the brokers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from odradek.base.errors import ErrorCode
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Group, LogDir, Topic
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.p16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.p35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

EARLIEST, LATEST = -2, -1
# With READ_COMMITTED, the latest offset is the last stable one.
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
UNKNOWN = -1
CONSUMER_REPLICA = -1
# A broker answers a request in one piece, and its other requests wait meanwhile.
PARTITIONS_PER_REQUEST = 1_000
TOPIC_RESOURCE = 2
# What an Odradek broker reports as the lag of a log that failed.
FAILED_LOG = -1
MIN_IN_SYNC = "min.insync.replicas"

Offsets = dict[str, list[int]]


def read_offsets(
    cluster: Cluster,
    topics: Mapping[str, Topic],
    alive: Collection[int],
    at: int,
    isolation: int = READ_UNCOMMITTED,
) -> Offsets:
    """Log ends or log starts: an offset for each partition. UNKNOWN where the leader does not answer."""
    found: Offsets = {name: [UNKNOWN] * len(topic.partitions) for name, topic in topics.items()}
    by_leader: dict[int, list[tuple[str, int]]] = {}
    for name, topic in topics.items():
        for partition in topic.partitions:
            if partition.leader in alive:
                by_leader.setdefault(partition.leader, []).append((name, partition.number))

    def ask(leader: int) -> None:
        for few in _few(by_leader[leader]):
            for name, index, offset in _listed(cluster, leader, few, at, isolation):
                if index < len(found[name]):
                    found[name][index] = offset

    cluster.each(by_leader, ask)
    return found


def _listed(
    cluster: Cluster, leader: int, places: Sequence[tuple[str, int]], at: int, isolation: int
) -> Iterator[tuple[str, int, int]]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in places:
        by_topic.setdefault(name, []).append(ListOffsetsPartition(partition_index=index, timestamp=at))
    asked = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    request = ListOffsetsRequest(replica_id=CONSUMER_REPLICA, isolation_level=isolation, topics=asked)
    for topic in cluster.at(leader, request, ListOffsetsResponse, newest=7).topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                yield topic.name, partition.partition_index, partition.offset


def _few(places: Sequence[tuple[str, int]]) -> Iterator[Sequence[tuple[str, int]]]:
    for first in range(0, len(places), PARTITIONS_PER_REQUEST):
        yield places[first : first + PARTITIONS_PER_REQUEST]


def read_log_dirs(cluster: Cluster, brokers: Iterable[int]) -> tuple[dict[int, tuple[LogDir, ...]], dict[str, int]]:
    """The directories of each broker, and the bytes of all replicas of each topic. Silent brokers are left out."""
    sizes: dict[str, int] = {}
    directories = {}
    answers = cluster.each(
        brokers, lambda each: cluster.at(each, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    )
    for broker, answer in answers.items():
        if isinstance(answer, NoAnswer):
            continue
        directories[broker] = tuple(map(log_dir, answer.results))
        for result in answer.results:
            for topic in result.topics:
                sizes[topic.name] = sizes.get(topic.name, 0) + sum(each.partition_size for each in topic.partitions)
    return directories, sizes


def log_dir(result: DescribeLogDirsResult) -> LogDir:
    return LogDir(
        path=result.log_dir,
        error=None if result.error_code == ErrorCode.NONE else error_name(result.error_code),
        bytes_total=result.total_bytes if result.total_bytes >= 0 else None,
        bytes_usable=result.usable_bytes if result.usable_bytes >= 0 else None,
        bytes_logs=sum(each.partition_size for topic in result.topics for each in topic.partitions),
        failed=tuple(
            f"{topic.name}-{each.partition_index}"
            for topic in result.topics
            for each in topic.partitions
            if each.offset_lag == FAILED_LOG
        ),
    )


def read_groups(cluster: Cluster, brokers: Iterable[int]) -> dict[str, Group]:
    """Each broker knows the groups that it coordinates. Those of silent brokers are missing."""
    answers = cluster.each(brokers, lambda each: cluster.at(each, ListGroupsRequest(), ListGroupsResponse))
    return {
        group.group_id: _group(group, broker)
        for broker, answer in answers.items()
        if not isinstance(answer, NoAnswer)
        for group in answer.groups
    }


def _group(found: ListedGroup, coordinator: int) -> Group:
    return Group(
        name=found.group_id,
        state=found.group_state,
        kind=found.group_type.lower(),
        protocol=found.protocol_type,
        coordinator=coordinator,
    )


def read_min_in_sync(cluster: Cluster, topics: Sequence[str]) -> dict[str, int]:
    """min.insync.replicas of these topics."""
    asked = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=[MIN_IN_SYNC])
        for name in topics
    ]
    if not asked:
        return {}
    response = cluster.anyone(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse)
    return {
        result.resource_name: int(config.value)
        for result in response.results
        for config in result.configs
        if config.name == MIN_IN_SYNC and config.value is not None
    }


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
