"""The lag of all groups of a cluster: takes log ends and commits as they are read, and evaluates groups.

Behaves like Burrow's storage and evaluator. Times come from the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from odradek.monitor.lag.evaluation import Commit, Status, group_status, partition_status
from odradek.monitor.lag.log_ends import UNKNOWN_END, Age, TopicEnds, Undated
from odradek.monitor.lag.settings import LagSettings
from odradek.monitor.lag.trend import change_per_second, seconds_to_catch_up
from odradek.monitor.lag.windows import NO_OFFSET, Positions, TopicCommits


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    topic: str
    partition: int
    owner: str
    client_id: str
    status: Status
    commits: Sequence[Commit]
    current_lag: int
    complete: float
    age: Age
    per_second: float | None

    @property
    def catch_up_s(self) -> float | None:
        return seconds_to_catch_up(self.current_lag, self.per_second, self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    group: str
    partitions: Sequence[PartitionLag]

    @property
    def status(self) -> Status:
        return group_status(partition.status for partition in self.partitions)

    @property
    def complete(self) -> float:
        """The share of partitions whose window is full."""
        if not self.partitions:
            return 0.0
        return sum(partition.complete == 1.0 for partition in self.partitions) / len(self.partitions)

    @property
    def total_lag(self) -> int:
        return sum(partition.current_lag for partition in self.partitions)

    @property
    def max_lag(self) -> PartitionLag | None:
        return max(self.partitions, key=lambda partition: partition.current_lag, default=None)

    @property
    def age(self) -> Age:
        """That of the partition that is the furthest behind."""
        return max((partition.age for partition in self.partitions), default=Age(0.0, is_minimum=False))

    @property
    def per_second(self) -> float | None:
        """None if no partition has a window."""
        known = [partition.per_second for partition in self.partitions if partition.per_second is not None]
        return sum(known) if known else None

    @property
    def catch_up_s(self) -> float | None:
        """Until the slowest partition has caught up. None if one of them will not."""
        needed = [partition.catch_up_s for partition in self.partitions]
        return None if None in needed else max((each for each in needed if each is not None), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The figures of a group that metrics and alerts need, without an object for each partition."""

    status: Status
    worst: Status  # of its partitions, such as STALL for a group that is ERR
    lag_by_topic: Mapping[str, int]
    max_lag: int
    age: Age

    @property
    def total_lag(self) -> int:
        return sum(self.lag_by_topic.values())


class _Group:
    def __init__(self) -> None:
        self.topics: dict[str, TopicCommits] = {}
        self.last_commit_ms = 0


class ClusterLag:
    def __init__(self, settings: LagSettings) -> None:
        self.settings = settings
        self._topics: dict[str, TopicEnds] = {}
        self._groups: dict[str, _Group] = {}

    # What is read

    def log_ends(self, topic: str, partitions: int, ends: Mapping[int, int], now_ms: int) -> None:
        if topic not in self._topics:
            self._topics[topic] = TopicEnds(self.settings.intervals)
        self._topics[topic].add(partitions, ends, now_ms)

    def past_log_ends(self, topic: str, times_ms: Sequence[int], rows: Sequence[Sequence[int]]) -> None:
        """Samples from before the first call of `log_ends`, oldest first."""
        if topic in self._topics:
            self._topics[topic].begin_with(times_ms, rows)

    def ends_at_commits(self, ends: Mapping[tuple[str, int], Mapping[int, int]]) -> None:
        """Corrects the lag of commits from before the start: log ends at their times, an answer to `commit_times`.

        With today's log end the lag always seems to shrink: a group that falls behind would be OK until its window has
        new commits only.
        """
        for group in self._groups.values():
            for topic, commits in group.topics.items():
                for partition, _ in self._lags(topic, commits):
                    if (ends_at := ends.get((topic, partition))) is not None:
                        commits.correct_lags(partition, ends_at)

    def date(self, topic: str, partition: int, offset: int, at_ms: int) -> None:
        """`offset` was the end until then: an answer to `undated`."""
        if topic in self._topics:
            self._topics[topic].date(partition, offset, at_ms)

    def topic_deleted(self, topic: str) -> None:
        self._topics.pop(topic, None)
        for group in self._groups.values():
            group.topics.pop(topic, None)

    def committed(self, group: str, topic: str, positions: Positions, now_ms: int) -> None:
        """Commits of one group in the order of their records. Those of unknown topics are dropped, as in Burrow."""
        if topic in self._topics:
            self._committed(group, topic, positions, self._topics[topic].newest, now_ms)

    def replayed(self, group: str, topic: str, positions: Positions, now_ms: int) -> None:
        """Commits from before the start, with the lag that they had at their time, by the history of log ends."""
        ends = self._topics.get(topic)
        if ends is None:
            return
        for position in positions:
            partition, _, timestamp_ms = position
            if ends.knows(partition):
                at_its_time = [UNKNOWN_END] * len(ends)
                at_its_time[partition] = ends.at(partition, timestamp_ms)
                self._committed(group, topic, Positions.of(position), at_its_time, now_ms)

    def _committed(self, group: str, topic: str, positions: Positions, ends: Sequence[int], now_ms: int) -> None:
        now_s = now_ms // 1000
        oldest_ms = (now_s - self.settings.expire_group_s) * 1000
        if positions.times_ms[0] < oldest_ms:
            recent = [position for position in positions if position[2] >= oldest_ms]
            if not recent:
                return
            positions = Positions.of(*recent)
        if not self.settings.accepts(group):
            return
        found = self._groups.get(group) or _Group()
        commits = self._commits(found, topic, max(positions.partitions))
        accepted_ms = commits.add(positions, ends, now_s, self.settings.min_distance_s * 1000)
        if accepted_ms is not None:
            found.last_commit_ms = accepted_ms
            found.topics[topic] = commits
            self._groups[group] = found

    def _commits(self, group: _Group, topic: str, partition: int) -> TopicCommits:
        commits = group.topics.get(topic)
        if commits is None:
            return TopicCommits(len(self._topics[topic]), self.settings.intervals)
        if partition >= len(commits):
            commits.grow(len(self._topics[topic]))
        return commits

    def offset_deleted(self, group: str, topic: str, partition: int) -> None:
        found = self._groups.get(group)
        if found is None or topic not in found.topics:
            return
        found.topics[topic].forget(partition)
        if found.topics[topic].is_empty:
            self.forget(group, topic)

    def assigned(self, group: str, topic: str, partitions: Sequence[int], host: str, client_id: str) -> None:
        if not self.settings.accepts(group):
            return
        found = self._groups.setdefault(group, _Group())
        ends = self._topics.get(topic)
        known = [index for index in partitions if ends is not None and ends.knows(index)]
        if ends is None or not known:
            return
        commits = found.topics[topic] = self._commits(found, topic, max(known))
        for partition in known:
            commits.assign(partition, host, client_id)

    def unassigned(self, group: str) -> None:
        for commits in self._groups[group].topics.values() if group in self._groups else ():
            commits.clear_owners()

    def forget(self, group: str, topic: str | None = None) -> None:
        """The group, or its commits for one topic; the group goes with its last topic."""
        found = self._groups.get(group)
        if found is None:
            return
        if topic is not None:
            found.topics.pop(topic, None)
        if topic is None or not found.topics:
            del self._groups[group]

    # What is known

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def ends(self, topic: str) -> TopicEnds | None:
        return self._topics.get(topic)

    def groups(self) -> list[str]:
        return sorted(self._groups)

    def groups_of(self, topic: str) -> list[str]:
        return sorted(name for name, group in self._groups.items() if topic in group.topics)

    def evaluate(self, group: str, now_ms: int) -> GroupLag | None:
        found = self._live(group, now_ms)
        if found is None:
            return None
        partitions = [
            self._partition(topic, commits, partition, now_ms)
            for topic, commits in sorted(found.topics.items())
            for partition in range(len(commits))
        ]
        return GroupLag(group=group, partitions=partitions)

    def summary(self, group: str, now_ms: int) -> GroupSummary | None:
        """The same figures as `evaluate`, at a tenth of the cost when most partitions have no lag."""
        found = self._live(group, now_ms)
        if found is None:
            return None
        by_topic, largest = dict.fromkeys(found.topics, 0), 0
        status, age = Status.OK, Age(0.0, is_minimum=False)
        for topic, commits in found.topics.items():
            for partition, lag in self._lags(topic, commits):
                by_topic[topic] += lag
                largest = max(largest, lag)
                status = max(status, self._status(topic, commits, partition, lag, now_ms // 1000))
                age = max(age, self._topics[topic].age(partition, commits.newest[partition], now_ms))
        return GroupSummary(
            status=group_status([status]), worst=status, lag_by_topic=by_topic, max_lag=largest, age=age
        )

    def partitions_behind(self) -> list[tuple[str, int]]:
        """The partitions in which a group has lag."""
        behind = {
            (topic, partition): None
            for group in self._groups.values()
            for topic, commits in group.topics.items()
            for partition, _ in self._lags(topic, commits)
        }
        return list(behind)

    def commit_times(self) -> dict[tuple[str, int], set[int]]:
        """The times of the commits in all windows, by partition, where a group has lag."""
        found: dict[tuple[str, int], set[int]] = {}
        for group in self._groups.values():
            for topic, commits in group.topics.items():
                for partition, _ in self._lags(topic, commits):
                    times = found.setdefault((topic, partition), set())
                    times.update(commit.timestamp_ms for commit in commits.commits(partition))
        return found

    def undated(self, now_ms: int) -> dict[str, list[Undated]]:
        """By topic, the committed offsets whose age the samples of log ends do not tell well enough."""
        behind: dict[str, set[tuple[int, int]]] = {topic: set() for topic in self._topics}
        for group in self._groups.values():
            for topic, commits in group.topics.items():
                behind.setdefault(topic, set()).update(
                    (partition, commits.newest[partition]) for partition, _ in self._lags(topic, commits)
                )
        found = {topic: self._topics[topic].undated(behind[topic], now_ms) for topic in self._topics}
        return {topic: each for topic, each in found.items() if each}

    # Evaluation

    def _live(self, group: str, now_ms: int) -> _Group | None:
        """Drops a group whose last commit has expired. So does Burrow, when the group is asked for."""
        found = self._groups.get(group)
        if found is not None and (now_ms // 1000 - self.settings.expire_group_s) * 1000 > found.last_commit_ms:
            del self._groups[group]
            return None
        return found

    def _lags(self, topic: str, commits: TopicCommits) -> Iterator[tuple[int, int]]:
        """The partitions that have lag."""
        ends = self._topics.get(topic)
        if ends is None:
            return
        for partition, (end, offset) in enumerate(zip(ends.newest, commits.newest, strict=False)):
            if end > offset and offset != NO_OFFSET:
                yield partition, end - offset

    def _status(self, topic: str, commits: TopicCommits, partition: int, lag: int, now_s: int) -> Status:
        window = commits.window(partition)
        if window is None or len(window.offsets) / self.settings.intervals < self.settings.minimum_complete:
            return Status.OK
        ends = self._topics[topic].recent(partition) if topic in self._topics else ()
        return partition_status(window, ends, lag, now_s, self.settings.allowed_lag)

    def _partition(self, topic: str, commits: TopicCommits, partition: int, now_ms: int) -> PartitionLag:
        window = commits.commits(partition)
        ends = self._topics.get(topic)
        lag, age = 0, Age(0.0, is_minimum=False)
        if window and ends is not None:
            lag = max(ends.newest[partition] - window[-1].offset, 0)
            age = ends.age(partition, window[-1].offset, now_ms)
        # An assigned partition without commits has an empty window, of which Burrow counts one slot.
        filled = max(len(window), 1) if commits.has_window(partition) else 0
        owner, client_id = commits.owner(partition)
        return PartitionLag(
            topic=topic,
            partition=partition,
            owner=owner,
            client_id=client_id,
            status=self._status(topic, commits, partition, lag, now_ms // 1000),
            commits=window,
            current_lag=lag,
            complete=filled / self.settings.intervals,
            age=age,
            per_second=change_per_second(window, lag, now_ms),
        )
