"""The lag of watched clusters as metrics. Series of single partitions are opt-in, because there may be 100,000."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.monitor.catalogue.consumer_lag import (
    CLUSTER_REACHABLE,
    COMMITS_READ,
    GROUP_LAG,
    GROUP_SECONDS,
    GROUP_STATUS,
    PARTITION_LAG,
    PARTITION_OFFSET,
    PARTITION_STATUS,
    TOPIC_LAG,
    TOPIC_OFFSET,
)
from odradek.monitor.lag.cluster_lag import GroupLag
from odradek.monitor.registry import Reading, Registry
from odradek.watch.watched_cluster import WatchedCluster

# What is known only while the cluster can be read. The first label is the cluster.
GROUP_METRICS = frozenset(
    {GROUP_LAG, GROUP_STATUS, GROUP_SECONDS, TOPIC_LAG, PARTITION_LAG, PARTITION_OFFSET, PARTITION_STATUS, TOPIC_OFFSET}
)


def measure_lag(registry: Registry, clusters: Sequence[WatchedCluster], *, partitions: bool) -> None:
    for cluster in clusters:
        registry.gauge(COMMITS_READ, lambda cluster=cluster: cluster.commits_read, cluster.name)  # type: ignore[misc]
        registry.gauge(CLUSTER_REACHABLE, lambda cluster=cluster: int(cluster.problem is None), cluster.name)  # type: ignore[misc]
        registry.source(lambda cluster=cluster: _groups(cluster))  # type: ignore[misc]
        if partitions:
            registry.source(lambda cluster=cluster: _partitions(cluster))  # type: ignore[misc]


def _groups(cluster: WatchedCluster) -> Iterator[Reading]:
    for group in cluster.groups():
        summary = cluster.summary(group)
        if summary is None:
            continue
        labels = cluster.name, group
        yield Reading(GROUP_LAG, labels, summary.total_lag)
        yield Reading(GROUP_STATUS, labels, int(summary.status))
        yield Reading(GROUP_SECONDS, labels, summary.age.seconds)
        for topic, lag in summary.lag_by_topic.items():
            yield Reading(TOPIC_LAG, (*labels, topic), lag)


def _partitions(cluster: WatchedCluster) -> Iterator[Reading]:
    for group in cluster.groups():
        found = cluster.evaluate(group)
        if found is not None:
            yield from _partitions_of(cluster.name, found)
    for topic in cluster.topics():
        for partition, end in enumerate(cluster.ends(topic) or ()):
            yield Reading(TOPIC_OFFSET, (cluster.name, topic, str(partition)), end)


def _partitions_of(cluster: str, group: GroupLag) -> Iterator[Reading]:
    for partition in group.partitions:
        labels = cluster, group.group, partition.topic, str(partition.partition)
        yield Reading(PARTITION_LAG, labels, partition.current_lag)
        if partition.complete == 1.0:
            yield Reading(PARTITION_OFFSET, labels, partition.commits[-1].offset)
            yield Reading(PARTITION_STATUS, labels, int(partition.status))
