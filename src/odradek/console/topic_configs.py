"""The configs of topics as pages show them: grouped, with their default and where a value comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from odradek.base.errors import ErrorCode
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.frame import Refused
from odradek.console.rendering import duration, size
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
OVERVIEW = ("cleanup.policy", "retention.ms", "retention.bytes")
SOURCES = {
    1: "this topic",
    2: "this broker, dynamic",
    3: "all brokers, dynamic",
    4: "the broker's file",
    5: "default",
}
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    name: str
    value: str | None  # None: it is sensitive
    default: str | None  # what it would be without the topic's own value
    source: str
    is_own: bool  # set for this topic
    is_sensitive: bool
    is_read_only: bool
    documentation: str

    @property
    def readable(self) -> str:
        """The value in units of people; empty if it has none."""
        return readable(self.name, self.value)


def readable(name: str, value: str | None) -> str:
    if value is None or not value.lstrip("-").isdecimal():
        return ""
    number = int(value)
    if name.endswith((".ms", ".ms.max")):
        return "unlimited" if number < 0 else "never" if number >= 2**63 - 1 else duration(number / 1000)
    if name.endswith(".bytes"):
        return "unlimited" if number < 0 else size(number)
    return "never" if number >= 2**63 - 1 else ""


def read_configs(cluster: Cluster, topic: str) -> list[Config]:
    """Raises Refused, NoAnswer."""
    [found] = _described(cluster, [topic], None)
    if found.error_code != ErrorCode.NONE:
        raise Refused(f"The configs of {topic} cannot be read", found.error_message or error_text(found.error_code))
    return sorted(map(_config, found.configs), key=lambda each: each.name)


def read_overviews(cluster: Cluster, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The configs of OVERVIEW, by topic. Empty if no broker answers: the list of topics does not depend on it."""
    if not topics:
        return {}
    try:
        results = _described(cluster, topics, OVERVIEW)
    except NoAnswer:
        return {}
    return {
        result.resource_name: MappingProxyType({each.name: each.value or "" for each in result.configs})
        for result in results
        if result.error_code == ErrorCode.NONE
    }


def _described(cluster: Cluster, topics: Sequence[str], keys: Sequence[str] | None) -> Sequence[DescribeConfigsResult]:
    asked = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None if keys is None else list(keys)
        )
        for topic in topics
    ]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=keys is None, include_documentation=keys is None)
    return cluster.anyone(request, DescribeConfigsResponse).results


def _config(found: DescribeConfigsResourceResult) -> Config:
    is_own = found.config_source == TOPIC_SOURCE
    below = [each for each in found.synonyms if each.source != TOPIC_SOURCE]
    default = below[0].value if below else (None if is_own else found.value)
    return Config(
        name=found.name,
        value=None if found.is_sensitive else found.value,
        default=None if found.is_sensitive else default,
        source=SOURCES.get(found.config_source, "unknown"),
        is_own=is_own,
        is_sensitive=found.is_sensitive,
        is_read_only=found.read_only,
        documentation=found.documentation or "",
    )


def grouped(configs: Iterable[Config]) -> list[tuple[str, list[Config]]]:
    groups: dict[str, list[Config]] = {title: [] for title in (*(title for title, _ in GROUPS), OTHERS)}
    for config in configs:
        title = next((title for title, starts in GROUPS if config.name.startswith(starts)), OTHERS)
        groups[title].append(config)
    return [(title, found) for title, found in groups.items() if found]


def change(cluster: Cluster, topic: str, name: str, value: str | None) -> None:
    """Sets a config, or with None removes the topic's own value. Raises Refused, NoAnswer."""
    entry = AlterableConfig(name=name, value=value, config_operation=DELETE if value is None else SET)
    asked = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[entry])
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
    [result] = cluster.anyone(request, IncrementalAlterConfigsResponse).responses
    if result.error_code != ErrorCode.NONE:
        raise Refused(f"{name} is not changed", result.error_message or error_text(result.error_code))


def error_text(code: int) -> str:
    try:
        return ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"
