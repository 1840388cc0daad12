"""How pages show the configs of topics: in groups, in units of people, and those that lists of topics need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from odradek.base.errors import ErrorCode
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.configs import Config, Kind
from odradek.console.rendering import duration, size
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPIC_SOURCE = "topic"
LISTED = ("cleanup.policy", "retention.ms", "retention.bytes")
LONG_MAX = 2**63 - 1
GROUPS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("Retention and cleanup", ("cleanup.", "retention.", "delete.retention", "file.delete")),
    ("Compaction", ("min.cleanable", "min.compaction", "max.compaction")),
    ("Durability", ("min.insync", "unclean.", "flush.")),
    ("Messages", ("max.message", "message.", "compression.")),
    ("Segments and indexes", ("segment.", "index.", "preallocate")),
    ("Replication", ("leader.", "follower.")),
    ("Tiered storage", ("remote.", "local.")),
)
OTHERS = "Others"


def readable(config: str, value: str | None) -> str:
    """The value in units of people; empty if it has none."""
    if value is None or not value.lstrip("-").isdecimal():
        return ""
    number = int(value)
    if number == LONG_MAX:
        return "never"
    if config.endswith(".ms"):
        return "unlimited" if number < 0 else duration(number / 1000)
    if config.endswith(".bytes"):
        return "unlimited" if number < 0 else size(number)
    return ""


def read_listed(cluster: Cluster, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The configs of LISTED, by topic. Empty if no broker answers: the list of topics does not depend on it."""
    if not topics:
        return {}
    asked = [
        DescribeConfigsResource(resource_type=Kind.TOPIC.value, resource_name=topic, configuration_keys=list(LISTED))
        for topic in topics
    ]
    try:
        results = cluster.anyone(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse).results
    except NoAnswer:
        return {}
    return {
        result.resource_name: MappingProxyType({each.name: each.value or "" for each in result.configs})
        for result in results
        if result.error_code == ErrorCode.NONE
    }


def grouped(configs: Iterable[Config]) -> list[tuple[str, list[Config]]]:
    groups: dict[str, list[Config]] = {title: [] for title in (*(title for title, _ in GROUPS), OTHERS)}
    for config in configs:
        title = next((title for title, starts in GROUPS if config.name.startswith(starts)), OTHERS)
        groups[title].append(config)
    return [(title, found) for title, found in groups.items() if found]
