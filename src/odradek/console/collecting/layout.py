"""Reads brokers, topics and the metadata quorum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.base.ids import uuid_text
from odradek.client.addresses import Address
from odradek.client.knocking import refusal
from odradek.client.wire import Unsupported
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Broker, Partition, Quorum, Topic, Voter
from odradek.protocol.messages.p03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)
from odradek.protocol.messages.p60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

METADATA_TOPIC = "__cluster_metadata"
KNOCK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]
    topics: Mapping[str, Topic]


def read_layout(cluster: Cluster, known: Mapping[int, Broker]) -> Layout:
    """`known` are the brokers of the last reading. A broker that does not answer has a problem. Raises NoAnswer."""
    metadata = cluster.anyone(
        MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse, newest=12
    )
    topics = {topic.name: topic for topic in map(_topic, metadata.topics)}
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in topics.values():
        for partition in topic.partitions:
            leads[partition.leader] += 1
            replicas.update(partition.replicas)
    registered = _registered(cluster, metadata)
    # A broker that died a moment ago may be missing already, and is known from before or as a replica.
    cluster.learn({broker_id: Address(host, port) for broker_id, (host, port, _, _) in registered.items()})
    problems = cluster.each(registered, cluster.knock)
    brokers = [
        Broker(
            broker_id=broker_id,
            host=host,
            port=port,
            rack=rack,
            is_fenced=is_fenced,
            problem=problem if isinstance(problem := problems[broker_id], str) else None,
            leads=leads[broker_id],
            replicas=replicas[broker_id],
        )
        for broker_id, (host, port, rack, is_fenced) in sorted(registered.items())
    ]
    brokers += [_gone(broker_id, known, replicas) for broker_id in sorted(replicas.keys() - registered.keys())]
    controller = metadata.controller_id if metadata.controller_id >= 0 else None
    return Layout(cluster_id=metadata.cluster_id or "", controller=controller, brokers=tuple(brokers), topics=topics)


def _registered(cluster: Cluster, metadata: MetadataResponse) -> dict[int, tuple[str, int, str | None, bool]]:
    """By broker id: host, port, rack, is fenced. Older clusters name only the brokers that are alive."""
    alive = {each.node_id: (each.host, each.port, each.rack, False) for each in metadata.brokers}
    try:
        described = cluster.anyone(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
    except Unsupported:
        return alive
    if described.error_code != ErrorCode.NONE:
        return alive
    return alive | {each.broker_id: (each.host, each.port, each.rack, each.is_fenced) for each in described.brokers}


def _gone(broker_id: int, known: Mapping[int, Broker], replicas: Counter[int]) -> Broker:
    """A broker that has replicas, but is not registered."""
    before = known.get(broker_id)
    return Broker(
        broker_id=broker_id,
        host=before.host if before else "",
        port=before.port if before else 0,
        rack=before.rack if before else None,
        is_fenced=True,
        problem="it is not registered",
        replicas=replicas[broker_id],
    )


def read_topic(cluster: Cluster, name: str) -> Topic | None:
    """A topic that may be newer than the snapshot. Raises NoAnswer."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    for found in cluster.anyone(asked, MetadataResponse, newest=12).topics:
        if found.error_code == ErrorCode.NONE and found.name == name:
            return _topic(found)
    return None


def _topic(found: MetadataResponseTopic) -> Topic:
    return Topic(
        name=found.name or "",
        topic_id=uuid_text(found.topic_id),
        is_internal=found.is_internal,
        partitions=tuple(
            Partition(each.partition_index, each.leader_id, tuple(each.replica_nodes), tuple(each.isr_nodes))
            for each in sorted(found.partitions, key=lambda each: each.partition_index)
        ),
    )


def read_quorum(cluster: Cluster) -> Quorum | None:
    """None if the cluster has no metadata quorum that it describes. Raises NoAnswer."""
    asked = DescribeQuorumRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
    )
    try:
        response = cluster.anyone(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    except Unsupported:
        return None
    endpoints = {
        node.node_id: str(Address(node.listeners[0].host, node.listeners[0].port))
        for node in response.nodes
        if node.listeners
    }
    partition = next((each for topic in response.topics for each in topic.partitions), None)
    if partition is None or partition.error_code != ErrorCode.NONE:
        if not endpoints:
            return None
        return _leaderless(response, endpoints)
    return Quorum(
        leader=partition.leader_id,
        epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        members=tuple(_members(partition)),
        endpoints=endpoints,
    )


def _leaderless(response: DescribeQuorumResponse, endpoints: Mapping[int, str]) -> Quorum:
    """Without a leader, the voters are only known by their addresses."""
    doors = {node.node_id: Address(node.listeners[0].host, node.listeners[0].port) for node in response.nodes}
    unreachable = tuple(node_id for node_id, door in sorted(doors.items()) if refusal(door, KNOCK_S) is not None)
    members = tuple(
        Voter(
            node_id=node_id,
            directory_id="",
            is_voter=True,
            log_end=-1,
            lag=0,
            silent_ms=None if node_id in unreachable else 0,
        )
        for node_id in sorted(doors)
    )
    return Quorum(leader=None, members=members, endpoints=endpoints, unreachable=unreachable)


def _members(partition: DescribeQuorumResponsePartitionData) -> list[Voter]:
    everybody = [*partition.current_voters, *partition.observers]
    now_ms = max((each.last_fetch_timestamp for each in everybody), default=-1)
    end = max((each.log_end_offset for each in everybody), default=0)

    def silent_ms(replica: ReplicaState) -> int | None:
        """By the leader's clock."""
        if replica.replica_id == partition.leader_id:
            return 0
        return None if replica.last_fetch_timestamp < 0 else now_ms - replica.last_fetch_timestamp

    return [
        Voter(
            node_id=each.replica_id,
            directory_id=uuid_text(each.replica_directory_id),
            is_voter=is_voter,
            log_end=each.log_end_offset,
            lag=max(end - each.log_end_offset, 0),
            silent_ms=silent_ms(each),
        )
        for is_voter, replicas in ((True, partition.current_voters), (False, partition.observers))
        for each in sorted(replicas, key=lambda each: each.replica_id)
    ]
