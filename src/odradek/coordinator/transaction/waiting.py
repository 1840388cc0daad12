"""Requests that wait until the current transaction of their transactional id has ended.

Without them a producer gets CONCURRENT_TRANSACTIONS and retries after its backoff, mostly much later than necessary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Effects, Now, TimerKey


class Waiting(NamedTuple):
    deadline_ms: int  # of the monotonic clock
    to: object
    again: Callable[[Now], Effects]


class WaitingRequests:
    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, deque[Waiting]] = {}

    def add(self, turn: Effects, transactional_id: str, to: object, again: Callable[[Now], Effects]) -> None:
        """Refuses it when it is one too many."""
        waiting = self._by_id.setdefault(transactional_id, deque())
        if len(waiting) >= limits.waiting_requests_per_transactional_id_max:
            turn.reply(to, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        deadline = turn.now.monotonic_ms + limits.transaction_end_wait_ms_max
        waiting.append(Waiting(deadline, to, again))
        if len(waiting) == 1:
            turn.set_timer(timer(transactional_id), limits.transaction_end_wait_ms_max)

    def wake(self, turn: Effects, transactional_id: str) -> None:
        """The transaction has ended. Each request gets a turn of its own, since a turn appends once."""
        if transactional_id in self._by_id:
            turn.set_timer(timer(transactional_id), 0)

    def timer_fired(self, transactional_id: str, now: Now, *, is_over: bool) -> Effects:
        waiting = self._by_id.get(transactional_id)
        if waiting is None:
            return Effects(now)
        turn = Effects(now)
        if is_over:
            turn = self._next(transactional_id).again(now)
        elif waiting[0].deadline_ms <= now.monotonic_ms:
            turn.reply(self._next(transactional_id).to, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))
        rest = self._by_id.get(transactional_id)
        if rest is not None:
            turn.set_timer(timer(transactional_id), 0 if is_over else rest[0].deadline_ms - now.monotonic_ms)
        return turn

    def _next(self, transactional_id: str) -> Waiting:
        waiting = self._by_id[transactional_id]
        first = waiting.popleft()
        if not waiting:
            del self._by_id[transactional_id]
        return first

    def refuse_all(self, turn: Effects) -> None:
        for waiting in self._by_id.values():
            for request in waiting:
                turn.reply(request.to, KafkaError(ErrorCode.NOT_COORDINATOR))
        self._by_id.clear()


def timer(transactional_id: str) -> TimerKey:
    return ("waiting", transactional_id)
