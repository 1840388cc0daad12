"""What one turn of a replicated state machine asks of the world.

A state machine never awaits and never writes: a turn gets the time, changes state held in memory, and collects here
its effects: replies to parked requests, timers, and at most one append. `then` of an append is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.invariants import invariant


class Now(NamedTuple):
    monotonic_ms: int
    wall_ms: int


# Kind of timer, group, member: ("session", "orders", "member-1").
TimerKey = tuple[str, str, str]


class Reply(NamedTuple):
    # Opaque to the state machine: whatever the shell handed in with the request.
    to: Any
    # A message, or the KafkaError that refuses.
    response: object


Then = Callable[[ErrorCode, Now], "Effects"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    changes: Sequence[Any]
    # False when the turn has already put into memory what these changes say.
    replay: bool
    # Runs once the high watermark has passed the last change, or with the reason why it never will.
    then: Then


class Effects:
    __slots__ = ("append", "now", "replies", "timers")

    def __init__(self, now: Now) -> None:
        self.now = now
        self.replies: list[Reply] = []
        # A deadline on the monotonic clock, or None to cancel. The last call for a key wins.
        self.timers: dict[TimerKey, int | None] = {}
        self.append: Append | None = None

    def reply(self, to: object, response: object) -> None:
        self.replies.append(Reply(to, response))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.timers[key] = self.now.monotonic_ms + delay_ms

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers[key] = None

    def write(self, changes: Sequence[Any], then: Then, *, replay: bool) -> None:
        invariant(self.append is None, "a turn appends once")
        self.append = Append(changes=changes, replay=replay, then=then)
