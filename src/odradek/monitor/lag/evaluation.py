"""Burrow's rules: the status of a partition from its last commits, and of a group from its partitions.

The order of the rules matters: the first one that applies decides. Times are milliseconds of commits, as the broker
wrote them; `now_s` has whole seconds, as in Burrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import ge
from typing import NamedTuple


class Status(IntEnum):
    """Ordered from good to bad. Numbers and names are Burrow's, which dashboards rely on."""

    NOTFOUND = 0  # groups only
    OK = 1
    WARN = 2  # the consumer commits, but its lag never decreases
    ERR = 3  # groups only: at least one partition is STOP, STALL or REWIND
    STOP = 4  # no commit for longer than the window covers
    STALL = 5  # the same offset is committed again and again
    REWIND = 6  # an earlier offset was committed, and the former one was not reached again


class Commit(NamedTuple):
    offset: int
    timestamp_ms: int
    observed_ms: int
    # The distance to the log end when the commit was read. It never changes. None if the log end was unknown.
    lag: int | None


class Window(NamedTuple):
    """The last commits of a partition in columns, oldest first, at least one. A commit without a known lag has none."""

    offsets: Sequence[int]
    lags: Sequence[int]
    first_ms: int
    last_ms: int

    @classmethod
    def of(cls, commits: Sequence[Commit]) -> Window:
        return cls(
            [commit.offset for commit in commits],
            [commit.lag for commit in commits if commit.lag is not None],
            commits[0].timestamp_ms,
            commits[-1].timestamp_ms,
        )


def partition_status(window: Window, ends: Sequence[int], current_lag: int, now_s: int, allowed_lag: int) -> Status:
    """`ends` are the last samples of the log end, in any order."""
    if current_lag <= allowed_lag:
        return Status.OK
    offsets, lags = window.offsets, window.lags
    if _has_stopped(window, now_s) and not _was_at_an_end(offsets[-1], ends):
        return Status.STOP
    if _is_rewound(offsets):
        return Status.REWIND
    if lags and min(lags) <= allowed_lag:
        return Status.OK
    if min(offsets) == max(offsets):
        return Status.STALL
    if all(map(ge, lags[1:], lags)):
        return Status.WARN
    return Status.OK


def group_status(partitions: Iterable[Status]) -> Status:
    return min(max(partitions, default=Status.OK), Status.ERR)


def _has_stopped(window: Window, now_s: int) -> bool:
    return now_s * 1000 - window.last_ms > window.last_ms - window.first_ms


def _was_at_an_end(offset: int, ends: Sequence[int]) -> bool:
    """The consumer had read everything minutes ago: new records alone do not mean that it has stopped."""
    return bool(ends) and min(ends) <= offset


def _is_rewound(offsets: Sequence[int]) -> bool:
    """Only the first step back counts. It is forgiven once the offset before it is reached again."""
    if all(map(ge, offsets[1:], offsets)):
        return False
    at = next(at for at in range(1, len(offsets)) if offsets[at] < offsets[at - 1])
    return max(offsets[at:]) < offsets[at - 1]
