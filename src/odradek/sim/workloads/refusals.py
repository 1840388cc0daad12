"""How a client handles an error code: retry, or report a violation."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.sim.history import Violation

# Errors that a well-behaved client retries later, at the leader or coordinator of that time.
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
    """The broker's answer was a retriable error: start over, and look up the leader or coordinator again."""


def refuse(name: str, code: int, what: str) -> None:
    """Raises AskAgain for an error that clients retry, Violation for one that a correct client must not get."""
    if code == ErrorCode.NONE:
        return
    error = ErrorCode(code)
    if error in RETRIABLE:
        raise AskAgain(error.name)
    raise Violation(f"J8 {name} was refused {what}: {error.name}")
