"""How lag changes, and how long a consumer needs to catch up: what Burrow does not say."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from odradek.monitor.lag.evaluation import Commit, Status


class Trend(StrEnum):
    GROWING = "growing"
    SHRINKING = "shrinking"
    STEADY = "steady"
    CAUGHT_UP = "caught up"  # there is no lag
    UNKNOWN = "unknown"  # fewer than two commits


def change_per_second(commits: Sequence[Commit], current_lag: int, now_ms: int) -> float | None:
    """The change of lag from the first commit of the window until now, in records per second.

    Until now, not until the last commit: lag also grows while a consumer commits nothing. None without a window.
    """
    first = next((commit for commit in commits if commit.lag is not None), None)
    if first is None or first.lag is None or len(commits) < 2 or now_ms <= first.timestamp_ms:
        return None
    return (current_lag - first.lag) * 1000 / (now_ms - first.timestamp_ms)


def seconds_to_catch_up(current_lag: int, per_second: float | None, status: Status) -> float | None:
    """None if the consumer will not catch up, or if that is unknown."""
    if current_lag == 0:
        return 0.0
    if per_second is None or per_second >= 0 or status in (Status.STOP, Status.STALL):
        return None
    return current_lag / -per_second


def trend(current_lag: int, per_second: float | None) -> Trend:
    if current_lag == 0:
        return Trend.CAUGHT_UP
    if per_second is None:
        return Trend.UNKNOWN
    if per_second > 0:
        return Trend.GROWING
    return Trend.SHRINKING if per_second < 0 else Trend.STEADY
