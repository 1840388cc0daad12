"""The effects that one turn of a replicated state machine asks for.

A state machine never awaits and never writes. A turn gets the time, changes state in memory and collects its effects:
replies to parked requests, timers, requests to brokers, and at most one append. The follow-up of an append, and the
answer of a broker, is a turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.base.invariants import invariant
from odradek.protocol.schema import Message
from odradek.protocol.txn_marker import TxnMarker


class Now(NamedTuple):
    monotonic_ms: int
    wall_ms: int


# The kind of timer and what it is for: ("session", "orders", "member-1").
TimerKey = tuple[str, ...]


class Reply(NamedTuple):
    # Opaque to the state machine: whatever the shell handed in with the request.
    to: Any
    # A message, or the KafkaError that refuses.
    response: object


class Producer(NamedTuple):
    """The transactional producer on whose behalf changes are written. They are pending until its transaction ends."""

    producer_id: int
    producer_epoch: int
    # Opaque: what the log knows about the transaction's coordinator, see `PartitionWriter.append`.
    verification: Any = None


Then = Callable[[ErrorCode, Now], "Effects"]


def then_reply(to: object, response: object, refused: Callable[[ErrorCode], object] = KafkaError) -> Then:
    """A follow-up that replies: with `response`, or after an error with what `refused` makes of it."""

    def reply(error: ErrorCode, now: Now) -> Effects:
        turn = Effects(now)
        turn.reply(to, refused(error) if error else response)
        return turn

    return reply


def then_nothing(_error: ErrorCode, now: Now) -> Effects:
    """For a write that is repeated later if it failed."""
    return Effects(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    # Without changes and marker, `then` only waits until everything that is in the log now is committed.
    changes: Sequence[Any]
    # Runs once the high watermark has passed the last change, or with the reason why it never will.
    then: Then
    # False when the turn has already put into memory what these changes say.
    replay: bool = True
    producer: Producer | None = None
    # Instead of changes.
    marker: TxnMarker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    broker_id: BrokerId
    request: Message
    version: int
    timeout_ms: int
    # Gets the answer, or None when none came: the broker may have carried out the request all the same.
    then: Callable[[Any, Now], Effects]


class Effects:
    __slots__ = ("append", "now", "questions", "replies", "timers")

    def __init__(self, now: Now) -> None:
        self.now = now
        self.replies: list[Reply] = []
        # A deadline on the monotonic clock, or None to cancel. The last call for a key wins.
        self.timers: dict[TimerKey, int | None] = {}
        self.append: Append | None = None
        self.questions: list[Ask] = []

    def reply(self, to: object, response: object) -> None:
        self.replies.append(Reply(to, response))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.timers[key] = self.now.monotonic_ms + delay_ms

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers[key] = None

    def write(self, changes: Sequence[Any], then: Then, *, producer: Producer | None = None) -> None:
        """Appends changes and then puts them into memory.

        If they are too large for one batch, `then` may get an error after the first of them were written.
        """
        self._append(Append(changes=changes, then=then, producer=producer))

    def store(self, change: Any, then: Then) -> None:  # noqa: ANN401
        """Appends a change that memory shows already. If that fails, `then` must take it out of memory again."""
        self._append(Append(changes=(change,), then=then, replay=False))

    def end_transaction(self, marker: TxnMarker, then: Then) -> None:
        self._append(Append(changes=(), then=then, marker=marker))

    def when_committed(self, then: Then) -> None:
        """For a turn that writes nothing but depends on earlier changes, which may not be committed yet."""
        self._append(Append(changes=(), then=then))

    def ask(self, question: Ask) -> None:
        self.questions.append(question)

    def _append(self, append: Append) -> None:
        invariant(self.append is None, "a turn appends once")
        self.append = append
