"""Shows the configs of topics: in groups, in readable units, and the few that the list of topics needs."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
KEPT_S, KEPT_MAX = 10.0, 10_000
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


class ListedConfigs:
    """The configs of LISTED of the topics that pages show, kept for some seconds: pages update themselves often.

    After a silence of all brokers nothing is asked for a while, so that pages do not wait for timeouts.
    """

    def __init__(self, cluster: Cluster, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._known: OrderedDict[str, tuple[float, Mapping[str, str]]] = OrderedDict()
        self._silent_until_s = 0.0
        self._lock = threading.Lock()

    def of(self, topics: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """By topic. Topics whose configs are unknown are missing."""
        now_s = self._now_s()
        with self._lock:
            old = [name for name in topics if name not in self._known or self._known[name][0] < now_s - KEPT_S]
            asks = bool(old) and now_s >= self._silent_until_s
        if asks:
            self._ask(old)
        with self._lock:
            return {name: self._known[name][1] for name in topics if name in self._known}

    def _ask(self, topics: Sequence[str]) -> None:
        asked = [
            DescribeConfigsResource(
                resource_type=Kind.TOPIC.value, resource_name=topic, configuration_keys=list(LISTED)
            )
            for topic in topics
        ]
        try:
            results = self._cluster.anyone(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse).results
        except NoAnswer:
            self._silent_until_s = self._now_s() + KEPT_S
            return
        with self._lock:
            for result in results:
                self._known.pop(result.resource_name, None)
                if result.error_code == ErrorCode.NONE:
                    found = {each.name: each.value or "" for each in result.configs}
                    self._known[result.resource_name] = (self._now_s(), MappingProxyType(found))
            while len(self._known) > KEPT_MAX:
                self._known.popitem(last=False)

    def forget(self, topic: str) -> None:
        """After a change."""
        with self._lock:
            self._known.pop(topic, None)


def grouped(configs: Iterable[Config]) -> list[tuple[str, list[Config]]]:
    groups: dict[str, list[Config]] = {title: [] for title in (*(title for title, _ in GROUPS), OTHERS)}
    for config in configs:
        title = next((title for title, starts in GROUPS if config.name.startswith(starts)), OTHERS)
        groups[title].append(config)
    return [(title, found) for title, found in groups.items() if found]
