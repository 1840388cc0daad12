"""Lag in the JSON of Burrow: names, order of keys and number formats."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from odradek.monitor.lag.cluster_lag import GroupLag, PartitionLag
from odradek.monitor.lag.evaluation import Commit, Status

Json = dict[str, object]


def commit_json(commit: Commit | None) -> Json | None:
    if commit is None:
        return None
    return {
        "offset": commit.offset,
        "timestamp": commit.timestamp_ms,
        "observedAt": commit.observed_ms,
        "lag": commit.lag,
    }


def partition_json(partition: PartitionLag) -> Json:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "owner": partition.owner,
        "client_id": partition.client_id,
        "status": partition.status.name,
        "start": commit_json(partition.commits[0] if partition.commits else None),
        "end": commit_json(partition.commits[-1] if partition.commits else None),
        "current_lag": partition.current_lag,
        "complete": short_float(partition.complete),
    }


def group_json(cluster: str, group: GroupLag, *, only_bad: bool) -> Json:
    partitions = [each for each in group.partitions if not only_bad or each.status > Status.OK]
    return {
        "cluster": cluster,
        "group": group.group,
        "status": group.status.name,
        "complete": short_float(group.complete),
        "partitions": [partition_json(each) for each in partitions],
        "partition_count": len(group.partitions),
        "maxlag": None if group.max_lag is None else partition_json(group.max_lag),
        "totallag": group.total_lag,
    }


def missing_group_json(cluster: str, group: str) -> Json:
    return {
        "cluster": cluster,
        "group": group,
        "status": Status.NOTFOUND.name,
        "complete": 1,
        "partitions": [],
        "partition_count": 0,
        "maxlag": None,
        "totallag": 0,
    }


def windows_json(group: GroupLag, intervals: int) -> Mapping[str, Sequence[Json]]:
    """All commits of a group. Slots that are not filled yet are null, and come first."""
    topics: dict[str, list[Json]] = {}
    for partition in group.partitions:
        # No slots at all for a partition that was never committed nor assigned.
        empty = intervals - len(partition.commits) if partition.complete else 0
        topics.setdefault(partition.topic, []).append(
            {
                "offsets": [None] * empty + [commit_json(each) for each in partition.commits],
                "owner": partition.owner,
                "client_id": partition.client_id,
                "current-lag": partition.current_lag,
            }
        )
    return topics


def short_float(value: float) -> float | int:
    """As Go writes a float of 32 bits: the shortest text that reads as the same number, and no `.0`."""
    stored = struct.pack("f", value)
    (exact,) = struct.unpack("f", stored)
    texts = (f"{exact:.{digits}g}" for digits in range(1, 10))
    short = next(float(text) for text in texts if struct.pack("f", float(text)) == stored)
    return int(short) if short.is_integer() else short
