"""The states of a transaction and the transitions between them, as data.

        ┌──────────── initialized ────────────┐
        ▼                                     │
  ┌─► Empty ──joined──► Ongoing ──commit──► PrepareCommit ──completed──► CompleteCommit ─┐
  │     │                 │ ▲                                                            │
  │     │                 │ └───────────────────────joined───────────────────────────────┤
  │     └──abort (TV2)──┐ └──abort──┐                                                    │
  │                     ▼           ▼                                                    │
  │                    PrepareAbort ──completed──► CompleteAbort ────────────────────────┤
  └─────────────────────────────────────initialized──────────────────────────────────────┘

From its Prepare record on, the outcome of a transaction is decided: whichever broker coordinates it writes the markers.
"""

from __future__ import annotations

from enum import Enum

from odradek.base.errors import ErrorCode
from odradek.base.invariants import InvariantBroken


class State(Enum):
    # As DescribeTransactions shows it.
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"

    @property
    def is_prepared(self) -> bool:
        return self in (_PREPARE_COMMIT, _PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """No transaction is open."""
        return self in _IDLE


class Happening(Enum):
    INITIALIZED = "the producer got an epoch"
    JOINED = "partitions joined the transaction"
    COMMIT = "the producer commits"
    ABORT = "the producer aborts, was replaced, or took too long"
    COMPLETED = "every partition has its marker"


_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMPLETE_COMMIT, _COMPLETE_ABORT = State
_IDLE = (_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT)

# In the log; 6 and 7 are states of Kafka that it never writes.
STATE_CODES: dict[State, int] = {state: code for code, state in enumerate(State)}
STATES_BY_CODE: dict[int, State] = {code: state for state, code in STATE_CODES.items()}

TRANSITIONS: dict[tuple[State, Happening], State] = {
    **{(state, Happening.INITIALIZED): _EMPTY for state in _IDLE},
    **{(state, Happening.JOINED): _ONGOING for state in (*_IDLE, _ONGOING)},
    # From an idle state only with transaction.version 2: the producer may not know whether a partition has joined.
    **{(state, Happening.ABORT): _PREPARE_ABORT for state in (*_IDLE, _ONGOING)},
    (_ONGOING, Happening.COMMIT): _PREPARE_COMMIT,
    (_PREPARE_COMMIT, Happening.COMPLETED): _COMPLETE_COMMIT,
    (_PREPARE_ABORT, Happening.COMPLETED): _COMPLETE_ABORT,
}

_NONE, _CONCURRENT, _INVALID = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
_COMMITS, _ABORTS, _RETRIED, _FIRST = True, False, True, False

# How EndTxn is answered in a state. What is missing here begins to end the transaction.
END_ANSWERS: dict[tuple[State, bool], ErrorCode] = {
    (_EMPTY, _COMMITS): _INVALID,
    (_EMPTY, _ABORTS): _INVALID,
    (_PREPARE_COMMIT, _COMMITS): _CONCURRENT,
    (_PREPARE_COMMIT, _ABORTS): _INVALID,
    (_PREPARE_ABORT, _COMMITS): _INVALID,
    (_PREPARE_ABORT, _ABORTS): _CONCURRENT,
    (_COMPLETE_COMMIT, _COMMITS): _NONE,
    (_COMPLETE_COMMIT, _ABORTS): _INVALID,
    (_COMPLETE_ABORT, _COMMITS): _INVALID,
    (_COMPLETE_ABORT, _ABORTS): _NONE,
}
# With transaction.version 2 the epoch says whether this transaction has been ended already (a retry).
END_ANSWERS_BY_EPOCH: dict[tuple[State, bool, bool], ErrorCode] = {
    (_EMPTY, _COMMITS, _FIRST): _INVALID,
    (_PREPARE_COMMIT, _COMMITS, _RETRIED): _CONCURRENT,
    (_PREPARE_COMMIT, _ABORTS, _RETRIED): _INVALID,
    (_PREPARE_ABORT, _COMMITS, _RETRIED): _INVALID,
    (_PREPARE_ABORT, _ABORTS, _RETRIED): _CONCURRENT,
    (_COMPLETE_COMMIT, _COMMITS, _RETRIED): _NONE,
    (_COMPLETE_COMMIT, _COMMITS, _FIRST): _INVALID,
    (_COMPLETE_COMMIT, _ABORTS, _RETRIED): _INVALID,
    (_COMPLETE_ABORT, _COMMITS, _RETRIED): _INVALID,
    (_COMPLETE_ABORT, _COMMITS, _FIRST): _INVALID,
    (_COMPLETE_ABORT, _ABORTS, _RETRIED): _NONE,
}


def next_state(state: State, happening: Happening) -> State:
    following = TRANSITIONS.get((state, happening))
    if following is None:
        raise InvariantBroken(f"a transaction in {state.value} cannot take {happening.name}: {happening.value}")
    return following
