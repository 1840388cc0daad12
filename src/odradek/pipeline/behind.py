"""The lag of a query behind its topics, computed from the offsets its group committed: in records and in seconds.

The lag in seconds is the age of the oldest unprocessed record, by its timestamp. That is how old the results are.
A group commits when a micro-batch is done and Spark plans the next one. Records of open transactions do not count: no
query can read them yet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.admin import Admin
from odradek.client.first_records import FirstRecords, Place

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    records: Mapping[str, int]  # not yet processed, by topic
    seconds: Mapping[str, float]  # the age of the oldest of them, by topic; 0 when all are processed

    @property
    def seconds_max(self) -> float:
        return max(self.seconds.values(), default=0.0)

    def or_further(self, other: Behind) -> Behind:
        """The larger lag of two groups, for each topic."""
        return Behind(records=_larger(self.records, other.records), seconds=_larger(self.seconds, other.seconds))


def _larger(one: Mapping[str, N], other: Mapping[str, N]) -> dict[str, N]:
    return {**one, **{topic: max(figure, one.get(topic, figure)) for topic, figure in other.items()}}


def behind(cluster: Admin, first: FirstRecords, group: str, ends: dict[str, dict[int, int]]) -> Behind | None:
    """The lag of a group; None before its first commit. Fetched end offsets are added to `ends`, for the next group."""
    committed = cluster.committed(group)
    if not committed:
        return None
    existing = set(cluster.topics(include_internal=True))
    records: Counter[str] = Counter()
    unread: dict[Place, int] = {}
    for (topic, partition), offset in committed.items():
        if topic not in existing:
            continue
        if topic not in ends:
            ends[topic] = cluster.end_offsets(topic, committed=True)
        left = max(0, ends[topic].get(partition, offset) - offset)
        records[topic] += left
        if left:
            unread[topic, partition] = offset
    seconds = dict.fromkeys(records, 0.0)
    now_s = time.time()
    for (topic, _), at_ms in first.timestamps_ms(unread).items():
        seconds[topic] = max(seconds[topic], round(now_s - at_ms / 1000, 1))
    return Behind(records=dict(records), seconds=seconds)
