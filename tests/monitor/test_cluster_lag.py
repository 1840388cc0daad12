"""Windows, log ends and groups of a cluster, as Burrow keeps them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base import limits
from odradek.monitor.lag.cluster_lag import ClusterLag
from odradek.monitor.lag.evaluation import Commit, Status, Window
from odradek.monitor.lag.log_ends import TopicEnds, Undated
from odradek.monitor.lag.settings import LagSettings
from odradek.monitor.lag.windows import Positions, TopicCommits

NOW = 1_700_000_000_000
T = "orders"


def cluster(end: int = 100, partitions: int = 1, **settings: object) -> ClusterLag:
    lag = ClusterLag(LagSettings(**settings))
    lag.log_ends(T, partitions, dict.fromkeys(range(partitions), end), NOW)
    return lag


def test_a_window_keeps_the_last_commits_with_the_lag_of_their_time() -> None:
    lag = cluster(end=100, intervals=3)
    for at in range(5):
        lag.log_ends(T, 1, {0: 100 + at}, NOW + at)
        lag.committed("g", T, Positions.of((0, 10 * at, NOW + 1000 * at)), NOW + 1000 * at + 1)
    found = lag.evaluate("g", NOW + 4000)
    assert found is not None
    [partition] = found.partitions
    assert partition.commits == [
        Commit(10 * at, NOW + 1000 * at, (NOW + 1000 * at) // 1000 * 1000, 100 + at - 10 * at) for at in (2, 3, 4)
    ]
    assert (partition.current_lag, partition.complete) == (64, 1.0)


def test_commits_closer_than_min_distance_replace_the_last_one_but_keep_its_time() -> None:
    lag = cluster(min_distance_s=5)
    for offset, after_ms in ((1, 0), (2, 3000), (3, 4999), (4, 5000), (5, 9999)):
        lag.committed("g", T, Positions.of((0, offset, NOW + after_ms)), NOW)
    [partition] = lag.evaluate("g", NOW).partitions
    assert [(commit.offset, commit.timestamp_ms - NOW) for commit in partition.commits] == [(3, 0), (5, 5000)]


def test_a_commit_that_is_older_than_the_last_one_replaces_it() -> None:
    lag = cluster()
    lag.committed("g", T, Positions.of((0, 1, NOW), (0, 2, NOW - 1)), NOW)
    [partition] = lag.evaluate("g", NOW).partitions
    assert [(commit.offset, commit.timestamp_ms) for commit in partition.commits] == [(2, NOW)]


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
@pytest.mark.parametrize("time_ms", [-1, NOW, 2**63 - 1])
@pytest.mark.parametrize("offset", [-(2**63), -1, 2**63 - 1])
def test_any_offset_and_time_can_be_committed(offset: int, time_ms: int, partitions: tuple[int, ...]) -> None:
    """Neither is checked by brokers: a client can commit what it wants."""
    lag = cluster(partitions=2)
    for _ in range(3):
        count = len(partitions)
        lag.committed("g", T, Positions(partitions, [offset] * count, [time_ms] * count), NOW)
    found = lag.evaluate("g", NOW)
    if time_ms > 0:
        assert found is not None
        assert found.partitions[0].current_lag == max(100 - offset, 0)
        assert lag.summary("g", NOW) is not None


def test_commits_of_unknown_topics_and_partitions_are_dropped() -> None:
    lag = cluster(partitions=2)
    lag.committed("g", "unknown", Positions.of((0, 1, NOW)), NOW)
    lag.committed("g", T, Positions.of((2, 1, NOW), (-1, 1, NOW)), NOW)
    assert lag.groups() == []
    lag.log_ends("led-by-none", 1, {}, NOW)
    lag.committed("g", "led-by-none", Positions.of((0, 1, NOW)), NOW)
    assert lag.groups() == []


def test_all_partitions_of_a_topic_count_once_the_group_has_committed_one() -> None:
    lag = cluster(partitions=3)
    lag.committed("g", T, Positions.of((1, 40, NOW)), NOW)
    found = lag.evaluate("g", NOW)
    assert [partition.complete for partition in found.partitions] == [0.0, 0.1, 0.0]
    assert (found.total_lag, found.complete, found.max_lag.partition) == (60, 0.0, 1)
    lag.log_ends(T, 5, {4: 10}, NOW)
    lag.committed("g", T, Positions.of((1, 41, NOW)), NOW)
    assert len(lag.evaluate("g", NOW).partitions) == 3, "new partitions count with their first commit"
    lag.committed("g", T, Positions.of((4, 3, NOW)), NOW)
    assert len(lag.evaluate("g", NOW).partitions) == 5


def test_an_assigned_partition_without_commits_has_an_empty_window_and_an_owner() -> None:
    lag = cluster(partitions=2)
    lag.committed("g", T, Positions.of((0, 100, NOW)), NOW)
    lag.assigned("g", T, [1], "/10.0.0.7", "billing-1")
    _, second = lag.evaluate("g", NOW).partitions
    assert (second.owner, second.client_id, second.commits, second.complete) == ("/10.0.0.7", "billing-1", [], 0.1)
    assert second.status is Status.OK
    lag.unassigned("g")
    assert lag.evaluate("g", NOW).partitions[1].owner == ""


def test_a_group_that_was_only_assigned_is_listed_and_then_not_found() -> None:
    lag = cluster()
    lag.assigned("g", T, [0], "/host", "client")
    assert lag.groups() == ["g"]
    assert lag.evaluate("g", NOW) is None
    assert lag.groups() == []


def test_groups_expire() -> None:
    lag = cluster(expire_group_s=60)
    lag.committed("g", T, Positions.of((0, 1, NOW - 61_000)), NOW)
    assert lag.groups() == []
    lag.committed("g", T, Positions.of((0, 1, NOW - 60_000)), NOW)
    assert lag.evaluate("g", NOW + 999) is not None
    assert lag.summary("g", NOW + 1000) is None
    assert lag.groups() == []


def test_groups_can_be_left_out() -> None:
    lag = cluster(group_allowlist=re.compile("^team-"), group_denylist=re.compile("test$"))
    for group in ("team-a", "team-test", "other"):
        lag.committed(group, T, Positions.of((0, 1, NOW)), NOW)
        lag.assigned(group, T, [0], "/host", "client")
    assert lag.groups() == ["team-a"]


def test_deleted_topics_groups_and_offsets_are_forgotten() -> None:
    lag = cluster(partitions=2)
    for group in ("a", "b", "c"):
        lag.committed(group, T, Positions.of((0, 1, NOW), (1, 1, NOW)), NOW)
    lag.forget("a")
    lag.offset_deleted("b", T, 0)
    assert (lag.groups(), lag.groups_of(T)) == (["b", "c"], ["b", "c"])
    assert [len(partition.commits) for partition in lag.evaluate("b", NOW).partitions] == [0, 1]
    lag.offset_deleted("b", T, 1)
    assert lag.groups() == ["c"]
    lag.topic_deleted(T)
    assert (lag.topics(), lag.evaluate("c", NOW).partitions) == ([], [])


def test_a_partition_below_minimum_complete_is_ok() -> None:
    for complete, expected in ((0.0, Status.STOP), (0.2, Status.OK)):
        lag = cluster(minimum_complete=complete)
        lag.committed("g", T, Positions.of((0, 1, NOW - 60_000)), NOW)
        assert lag.evaluate("g", NOW).partitions[0].status is expected


def test_a_summary_has_the_figures_of_the_evaluation() -> None:
    lag = cluster(partitions=4)
    for at in range(4):
        lag.committed("g", T, Positions.of((0, 100, NOW), (1, 50, NOW + at), (2, 60 + at, NOW)), NOW)
    found, summary = lag.evaluate("g", NOW + 5000), lag.summary("g", NOW + 5000)
    assert (summary.status, summary.total_lag, summary.max_lag, summary.age) == (
        found.status,
        found.total_lag,
        found.max_lag.current_lag,
        found.age,
    )
    assert summary.status is Status.ERR


# Lag in seconds


def test_lag_in_seconds_is_interpolated_between_samples_of_the_log_end() -> None:
    ends = TopicEnds(intervals=10)
    for at, end in enumerate((100, 200, 200, 300)):
        ends.add(1, {0: end}, NOW + 10_000 * at)
    now = NOW + 40_000
    assert ends.age(0, 300, now) == (0.0, False)
    assert ends.age(0, 250, now) == (15.0, False)
    assert ends.age(0, 200, now) == (20.0, False), "the last sample at which this offset was the end"
    assert ends.age(0, 100, now) == (40.0, False)
    assert ends.age(0, 99, now) == (40.0, True), "older than the history"


def test_samples_from_before_the_start_make_the_history_longer() -> None:
    ends = TopicEnds(intervals=10)
    ends.add(1, {0: 300}, NOW)
    ends.begin_with([NOW - 60_000, NOW - 30_000, NOW + 1], [[100], [200], [250]])
    assert ends.age(0, 150, NOW) == (45.0, False)


def test_commits_from_before_the_start_have_the_lag_of_their_time() -> None:
    """With today's log end, the lag of a group that falls behind would seem to shrink."""
    lag = cluster(partitions=1)
    for minutes_ago, offset in ((3, 10), (2, 20), (1, 30)):
        lag.committed("g", T, Positions.of((0, offset, NOW - 60_000 * minutes_ago)), NOW)
    assert lag.evaluate("g", NOW).status is Status.OK
    times_ms = NOW - 180_000, NOW - 120_000, NOW - 60_000
    assert lag.commit_times() == {(T, 0): set(times_ms)}
    lag.ends_at_commits({(T, 0): dict(zip(times_ms, (15, 40, 70), strict=True)), (T, 1): {}})
    found = lag.evaluate("g", NOW)
    assert [commit.lag for commit in found.partitions[0].commits] == [5, 20, 40]
    assert found.status is Status.WARN


def test_an_age_between_samples_that_are_far_apart_can_be_dated() -> None:
    ends = TopicEnds(intervals=10)
    ends.add(1, {0: 300}, NOW)
    ends.begin_with([NOW - 120_000, NOW - 60_000, NOW - 58_000], [[100], [100], [200]])
    behind = {(0, 100), (0, 200), (0, 300), (1, 5)}
    assert ends.undated(behind, NOW) == [Undated(partition=0, offset=200, before_ms=NOW - 58_000, after_ms=NOW)]
    ends.date(0, 200, NOW - 7_000)
    assert ends.undated(behind, NOW) == []
    assert ends.age(0, 200, NOW + 1_000) == (8.0, False)
    ends.undated({(0, 100)}, NOW)
    assert ends.age(0, 200, NOW) == (58.0, False), "the date of an offset that no group has is forgotten"


def test_a_log_that_lost_records_keeps_an_ascending_history() -> None:
    ends = TopicEnds(intervals=2)
    for at, end in enumerate((100, 200, 50, 80)):
        ends.add(1, {0: end}, NOW + 10_000 * at)
    assert ends.age(0, 60, NOW + 30_000).seconds == pytest.approx(6.7, abs=0.1)
    assert sorted(ends.recent(0)) == [50, 80]


def test_an_unknown_end_gives_a_minimum() -> None:
    ends = TopicEnds(intervals=2)
    ends.add(2, {0: 5}, NOW)
    ends.add(2, {0: 5, 1: 50}, NOW + 10_000)
    assert ends.age(1, 20, NOW + 30_000) == (20.0, True)
    assert ends.known() == [5, 50]


def test_the_history_is_bounded_and_reaches_back_days() -> None:
    ends = TopicEnds(intervals=2)
    day_ms = 24 * 3600 * 1000
    step_ms = 60_000
    for at in range(0, 3 * day_ms, step_ms):
        ends.add(1, {0: at // 1000}, NOW + at)
    assert len(ends._rows) == limits.log_end_samples_max
    now = NOW + 3 * day_ms
    for hours in (0.1, 1, 12, 48):
        assert ends.age(0, int(3 * 24 * 3600 - hours * 3600), now).seconds == pytest.approx(
            hours * 3600, rel=0.02, abs=60
        )


RUNS = st.lists(st.integers(0, 5), min_size=1, max_size=6) | st.builds(
    lambda first, last: list(range(first, max(first, last) + 1)), st.integers(0, 5), st.integers(0, 5)
)
REQUESTS = st.lists(st.tuples(RUNS, st.integers(0, 50), st.integers(0, 30)), max_size=60)


@given(REQUESTS, st.integers(1, 5), st.sampled_from([0, 5_000]), st.integers(1, 6))
def test_packed_windows_hold_what_plain_lists_would(
    requests: list[tuple[list[int], int, int]], intervals: int, min_distance_ms: int, size: int
) -> None:
    packed = TopicCommits(size, intervals)
    plain: dict[int, list[Commit]] = {}
    ends = [10, 20, 30, 40, -1, 60]
    for partitions, offset, seconds in requests:
        packed.grow(max(partitions) + 1)
        packed.add(Positions.of(*((p, offset + p, seconds * 1000) for p in partitions)), ends, 7, min_distance_ms)
        for partition in partitions:
            if ends[partition] < 0:
                continue
            commits = plain.setdefault(partition, [])
            new = Commit(offset + partition, seconds * 1000, 7000, max(ends[partition] - offset - partition, 0))
            if commits and new.timestamp_ms - commits[-1].timestamp_ms < min_distance_ms:
                commits[-1] = new._replace(timestamp_ms=commits[-1].timestamp_ms)
            else:
                commits.append(new)
            del commits[:-intervals]
    for partition in range(len(packed)):
        expected = plain.get(partition, [])
        assert packed.commits(partition) == expected
        assert packed.newest[partition] == (expected[-1].offset if expected else -1)
        window = packed.window(partition)
        assert (window and Window(*map(list, window[:2]), *window[2:])) == (Window.of(expected) if expected else None)
