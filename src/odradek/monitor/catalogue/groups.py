"""Consumer groups."""

from __future__ import annotations

from odradek.monitor.declaring import gauge
from odradek.monitor.metric import Metric

_GROUPS = "kafka.coordinator.group:type=GroupMetadataManager,name="
_COORDINATOR = "kafka.server:type=group-coordinator-metrics"


def _groups(state: str) -> Metric:
    return gauge(f"{_GROUPS}NumGroups{state}", "groups", f"Groups in the state {state} that this broker coordinates.")


GROUPS = gauge(_GROUPS + "NumGroups", "groups", "Groups that this broker coordinates.")
PREPARING = _groups("PreparingRebalance")
COMPLETING = _groups("CompletingRebalance")
STABLE = _groups("Stable")
EMPTY = _groups("Empty")
DEAD = _groups("Dead")
OFFSETS = gauge(_GROUPS + "NumOffsets", "offsets", "Committed offsets of the groups that this broker coordinates.")
MEMBERS = gauge(
    "odradek.coordinator.group:type=GroupMetadataManager,name=NumMembers",
    "members",
    "Members of the groups that this broker coordinates.",
)
BY_PROTOCOL = gauge(
    _COORDINATOR,
    "groups",
    "Groups by protocol: classic.",
    attribute="group-count",
    labels=("protocol",),
)
LOAD_TIME_MAX = gauge(
    _COORDINATOR,
    "ms",
    "Longest time to load a partition of __consumer_offsets in the last 30 to 60 seconds.",
    attribute="partition-load-time-max",
)
LOAD_TIME_AVG = gauge(
    _COORDINATOR,
    "ms",
    "Average time to load a partition of __consumer_offsets in the last 30 to 60 seconds.",
    attribute="partition-load-time-avg",
)
COORDINATED_PARTITIONS = gauge(
    _COORDINATOR,
    "partitions",
    "Partitions of __consumer_offsets that this broker coordinates, by state: loading, active.",
    attribute="num-partitions",
    labels=("state",),
)
