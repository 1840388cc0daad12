"""A cluster under watch: its lag, and the thread that reads commits and log ends from it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from odradek.monitor.lag.cluster_lag import ClusterLag, GroupLag, GroupSummary
from odradek.monitor.lag.settings import LagSettings
from odradek.watch.cluster_client import OFFSETS_TOPIC, ClusterClient, Layout, Place, Records
from odradek.watch.commit_records import Assigned, Commits, GroupDeleted, GroupEvent, OffsetDeleted, group_events
from odradek.watch.past_ends import dates, ends_at, past_ends

logger = logging.getLogger(__name__)

# One wake-up a second reads all commits of that second: many at once cost less than each alone.
COMMITS_EVERY_S = 1.0
RETRY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """As in Burrow's section `cluster`."""

    name: str
    servers: str
    offset_refresh_s: int = 10
    topic_refresh_s: int = 60
    client: Mapping[str, str] = field(default_factory=dict)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def apply(event: GroupEvent, lag: ClusterLag, at_ms: int) -> None:
    match event:
        case Commits():
            lag.committed(event.group, event.topic, event.positions, at_ms)
        case OffsetDeleted():
            lag.offset_deleted(event.group, event.topic, event.partition)
        case GroupDeleted():
            lag.forget(event.group)
        case Assigned(members=[]):
            lag.unassigned(event.group)
        case Assigned():
            for host, client_id, assigned in event.members:
                for topic, partitions in assigned.items():
                    lag.assigned(event.group, topic, partitions, host, client_id)


class WatchedCluster:
    """Requests read the lag from other threads, so every access holds the lock."""

    def __init__(
        self, settings: ClusterSettings, lag: LagSettings, *, commits_every_s: float = COMMITS_EVERY_S
    ) -> None:
        self.settings = settings
        self._lag_settings = lag
        self._commits_every_s = commits_every_s
        self._lag = ClusterLag(lag)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._layout: Layout | None = None
        self._next_topics_s = self._next_ends_s = 0.0
        # False until all commits from before the start have been read, as without them groups are missing.
        self.is_ready = False
        self.commits_read = 0
        self.problem: str | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def is_starting(self) -> bool:
        """Whether it is not known yet if the cluster can be read."""
        return not self.is_ready and self.problem is None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"odradek-watch-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    # Questions

    def topics(self) -> list[str]:
        with self._lock:
            return self._lag.topics()

    def ends(self, topic: str) -> list[int] | None:
        with self._lock:
            found = self._lag.ends(topic)
            return None if found is None else found.known()

    def groups(self) -> list[str]:
        with self._lock:
            return self._lag.groups()

    def groups_of(self, topic: str) -> list[str]:
        with self._lock:
            return self._lag.groups_of(topic)

    def evaluate(self, group: str) -> GroupLag | None:
        with self._lock:
            return self._lag.evaluate(group, now_ms())

    def summary(self, group: str) -> GroupSummary | None:
        with self._lock:
            return self._lag.summary(group, now_ms())

    def forget(self, group: str, topic: str | None = None) -> None:
        with self._lock:
            self._lag.forget(group, topic)

    # Reading

    def _run(self) -> None:
        client = ClusterClient(self.settings.servers, self.settings.client)
        try:
            while not self._stopping.is_set():
                try:
                    self._turn(client)
                    self._well()
                except KafkaException as failed:
                    self._failed(str(failed.args[0]))
                except Exception as failed:
                    # Without this boundary the watch would end, and its last figures would look like new ones.
                    if self.problem is None:
                        logger.exception("an error in the monitor")
                    self._failed(f"an error in the monitor: {failed!r}")
        finally:
            client.close()

    def _turn(self, client: ClusterClient) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_topics_s:
            self._next_topics_s = now_s + self.settings.topic_refresh_s
            self._look_at_topics(client)
        if now_s >= self._next_ends_s:
            self._next_ends_s = now_s + self.settings.offset_refresh_s
            self._look_at_ends(client)
        self._take(client.commits(self._commits_every_s))
        if not self.is_ready and not client.unread:
            self._look_into_the_past(client)
            self.is_ready = True

    def _look_at_topics(self, client: ClusterClient) -> None:
        layout, before = client.layout(), self._layout
        if before is not None and before.cluster_id != layout.cluster_id:
            logger.warning("%s is another cluster now (%s): starting over", self.name, layout.cluster_id)
            with self._lock:
                self._lag = ClusterLag(self._lag_settings)
            before = None
        with self._lock:
            for topic in before.partitions.keys() - layout.partitions.keys() if before is not None else ():
                self._lag.topic_deleted(topic)
        self._layout = layout
        offsets_partitions = layout.partitions.get(OFFSETS_TOPIC, 0)
        if not offsets_partitions:
            self._look_at_topics_soon()  # the first group creates it
        if before is None or before.partitions.get(OFFSETS_TOPIC, 0) != offsets_partitions:
            # Log ends come first: commits of topics without a known end are dropped.
            ends = self._look_at_ends(client)
            past = {partition: end for (topic, partition), end in ends.items() if topic == OFFSETS_TOPIC}
            client.read_commits(dict.fromkeys(range(offsets_partitions)), past)

    def _look_at_topics_soon(self) -> None:
        """Not sooner than the next look at log ends, however many reasons there are."""
        self._next_topics_s = min(self._next_topics_s, max(self._next_ends_s, time.monotonic()))

    def _look_at_ends(self, client: ClusterClient) -> Mapping[Place, int]:
        layout = self._layout
        if layout is None:
            return {}
        ends = client.log_ends(layout.leaders)
        if len(ends) < len(layout.leaders):
            self._next_topics_s = 0.0  # a leader did not answer: another one may lead by now
        by_topic: dict[str, dict[int, int]] = {topic: {} for topic in layout.partitions}
        for (topic, partition), end in ends.items():
            by_topic[topic][partition] = end
        at_ms = now_ms()
        with self._lock:
            for topic, found in by_topic.items():
                self._lag.log_ends(topic, layout.partitions[topic], found, at_ms)
        return ends

    def _look_into_the_past(self, client: ClusterClient) -> None:
        """Lag in seconds needs log ends from before the start, where groups are behind."""
        if self._layout is None:
            return
        with self._lock:
            behind = self._lag.partitions_behind()
            committed_ms = self._lag.commit_times()
        leaders = {place: self._layout.leaders[place] for place in behind if place in self._layout.leaders}
        history = past_ends(client, leaders, now_ms())
        with self._lock:
            for topic, (times_ms, rows) in history.items():
                self._lag.past_log_ends(topic, times_ms, rows)
            undated = self._lag.undated(now_ms())
        ends = ends_at(client, leaders, committed_ms)
        with self._lock:
            self._lag.ends_at_commits(ends)
        for (topic, partition), offset, at_ms in dates(client, leaders, undated):
            with self._lock:
                self._lag.date(topic, partition, offset, at_ms)

    def _take(self, runs: Iterable[Records]) -> None:
        at_ms = now_ms()
        for keys, values in runs:
            with self._lock:
                for event in group_events(keys, values):
                    apply(event, self._lag, at_ms)
                    if isinstance(event, Commits):
                        self.commits_read += len(event.positions)
                        if self._layout is not None and event.topic not in self._layout.partitions:
                            self._look_at_topics_soon()  # it is new; until then its commits are dropped

    def _failed(self, why: str) -> None:
        if self.problem is None:
            logger.warning("cannot read from cluster %s at %s, retrying: %s", self.name, self.settings.servers, why)
        self.problem = why
        # The next turn asks again: without this it would seem to succeed, because nothing is due.
        self._next_topics_s = 0.0
        self._stopping.wait(RETRY_S)

    def _well(self) -> None:
        if self.problem is not None:
            logger.warning("cluster %s answers again", self.name)
        self.problem = None
