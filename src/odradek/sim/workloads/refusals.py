"""What a client makes of an error code: ask again, or complain."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.sim.history import Violation

# What a well-behaved client answers by asking again later, of whoever is in charge by then.
RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


class AskAgain(Exception):
    """The broker's answer was a retriable error: start over, and find out who is in charge."""


def refuse(name: str, code: int, what: str) -> None:
    """Raises AskAgain for what a client retries, Violation for what should not happen to a correct client."""
    if code == ErrorCode.NONE:
        return
    error = ErrorCode(code)
    if error in RETRIABLE:
        raise AskAgain(error.name)
    raise Violation(f"J8 {name} was refused {what}: {error.name}")
