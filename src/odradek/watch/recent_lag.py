"""The lag of groups without a running monitor: their last commits are still in `__consumer_offsets`.

Reads the newest records of that topic, asks for the log ends of the past by time, and evaluates as if the monitor had
run. Commits that are older than what is read, or were compacted, give no window.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from odradek.monitor.lag.cluster_lag import ClusterLag, GroupLag
from odradek.monitor.lag.settings import LagSettings
from odradek.watch.cluster_client import OFFSETS_TOPIC, ClusterClient, Layout, Place
from odradek.watch.commit_records import Commits, group_events
from odradek.watch.past_ends import AGES_S, dates, ends_at, past_ends
from odradek.watch.watched_cluster import apply, now_ms

# The newest records of `__consumer_offsets`, in all its partitions together; reading them takes about a second.
RECORDS_MAX = 300_000
READ_TIMEOUT_S = 15.0
TURN_S = 0.1
# The samples of log ends that a monitor would have: Burrow's rules use the last ten.
RECENT_AGES_S = tuple(range(10, 100, 10))


class RecentLag:
    """`partitions` returns those of `__consumer_offsets` that hold the groups, given the number of its partitions."""

    def __init__(self, client: ClusterClient, partitions: Callable[[int], Collection[int]]) -> None:
        self._client = client
        self._partitions = partitions
        self._lag = ClusterLag(LagSettings())
        self._known: set[Place] = set()
        self._layout = Layout(cluster_id="", partitions={}, leaders={})

    def refresh(self, places: Collection[Place]) -> None:
        """Reads log ends and new commits. `places` are the partitions that the groups have committed."""
        self._layout = self._client.layout()
        is_first = not self._known
        new = {place: leader for place, leader in self._layout.leaders.items() if place in set(places) - self._known}
        self._look_back(new)
        self._known |= new.keys()
        self._look_at_ends()
        ends = self._commit_ends()
        if is_first:
            each = RECORDS_MAX // max(len(ends), 1)
            self._client.read_commits({partition: max(end - each, 0) for partition, end in ends.items()}, ends)
        else:
            self._client.read_on(ends)
        self._read()
        if is_first:
            self._lag.ends_at_commits(ends_at(self._client, self._layout.leaders, self._lag.commit_times()))
        for (topic, partition), offset, at_ms in dates(self._client, self._layout.leaders, self._lag.undated(now_ms())):
            self._lag.date(topic, partition, offset, at_ms)

    def evaluate(self, group: str) -> GroupLag | None:
        return self._lag.evaluate(group, now_ms())

    def end(self, place: Place) -> int | None:
        ends = self._lag.ends(place[0])
        return ends.newest[place[1]] if ends is not None and ends.knows(place[1]) else None

    def _look_back(self, leaders: Mapping[Place, int]) -> None:
        at_ms = now_ms()
        history = past_ends(self._client, leaders, at_ms, sorted({*AGES_S, *RECENT_AGES_S}))
        for topic, (times_ms, rows) in history.items():
            recent = [at for at, time_ms in enumerate(times_ms) if time_ms >= at_ms - RECENT_AGES_S[-1] * 1000]
            for at in recent:
                ends = {partition: end for partition, end in enumerate(rows[at]) if end >= 0}
                self._lag.log_ends(topic, self._layout.partitions[topic], ends, times_ms[at])
            older = len(times_ms) - len(recent)
            self._lag.past_log_ends(topic, times_ms[:older], rows[:older])

    def _look_at_ends(self) -> None:
        leaders = {place: leader for place, leader in self._layout.leaders.items() if place in self._known}
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), end in self._client.log_ends(leaders).items():
            by_topic.setdefault(topic, {})[partition] = end
        for topic, ends in by_topic.items():
            self._lag.log_ends(topic, self._layout.partitions[topic], ends, now_ms())

    def _commit_ends(self) -> dict[int, int]:
        """The log ends of the partitions of `__consumer_offsets` that hold the groups."""
        count = self._layout.partitions.get(OFFSETS_TOPIC, 0)
        wanted = [(OFFSETS_TOPIC, partition) for partition in self._partitions(count)] if count else []
        leaders = {place: self._layout.leaders[place] for place in wanted if place in self._layout.leaders}
        return {partition: end for (_, partition), end in self._client.log_ends(leaders).items()}

    def _read(self) -> None:
        """Reads the commits from before now. To wait for a pause would take for ever while groups commit."""
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        while self._client.unread and time.monotonic() < deadline_s:
            for keys, values in self._client.commits(TURN_S):
                for event in group_events(keys, values):
                    if isinstance(event, Commits):
                        self._lag.replayed(event.group, event.topic, event.positions, now_ms())
                    else:
                        apply(event, self._lag, now_ms())
