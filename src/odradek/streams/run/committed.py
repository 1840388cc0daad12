"""Waits until readers with read_committed can see what a query has written: markers follow the commit."""

from __future__ import annotations

import time
from collections.abc import Iterable

from odradek.client.admin import Admin
from odradek.client.java_names import librdkafka_config
from odradek.streams.graph.settings import EXACTLY_ONCE, Settings

LOOK_EVERY_S = 0.01


def await_committed(settings: Settings, topics: Iterable[str], deadline: float) -> None:
    """Until what is in the topics now is committed or aborted, or the deadline has passed."""
    if settings.delivery != EXACTLY_ONCE:
        return
    cluster = Admin(settings.bootstrap, librdkafka_config(settings.config))
    for topic in topics:
        ends = cluster.end_offsets(topic)
        while _is_open(cluster, topic, ends) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)


def _is_open(cluster: Admin, topic: str, ends: dict[int, int]) -> bool:
    stable = cluster.end_offsets(topic, committed=True)
    return any(stable.get(partition, end) < end for partition, end in ends.items())
