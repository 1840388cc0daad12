"""The states of a classic group and the transitions between them, as data.

Empty ──rebalance──► PreparingRebalance ──joined──► CompletingRebalance ──assigned──► Stable
  ▲                     │   ▲    ▲                       │                              │
  └──────deserted───────┘   │    └───────rebalance───────┘                              │
                            └────────────────────────────rebalance──────────────────────┘
any ──gone──► Dead
"""

from __future__ import annotations

from enum import Enum

from odradek.base.errors import ErrorCode
from odradek.base.invariants import InvariantBroken


class GroupState(Enum):
    # The value is what DescribeGroups and ListGroups show.
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Happening(Enum):
    REBALANCE = "a member joined, left, failed or changed its metadata"
    JOINED = "the join phase ended with members"
    DESERTED = "the join phase ended without members"
    ASSIGNED = "the leader's assignment is stored"
    GONE = "the group was deleted, or its partition moved away"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

TRANSITIONS: dict[tuple[GroupState, Happening], GroupState] = {
    (_EMPTY, Happening.REBALANCE): _PREPARING,
    (_STABLE, Happening.REBALANCE): _PREPARING,
    (_COMPLETING, Happening.REBALANCE): _PREPARING,
    (_PREPARING, Happening.JOINED): _COMPLETING,
    (_PREPARING, Happening.DESERTED): _EMPTY,
    (_COMPLETING, Happening.ASSIGNED): _STABLE,
    (_EMPTY, Happening.GONE): _DEAD,
    (_PREPARING, Happening.GONE): _DEAD,
    (_COMPLETING, Happening.GONE): _DEAD,
    (_STABLE, Happening.GONE): _DEAD,
}

# How a group answers a known member of the current generation; a state that is missing here is served.
HEARTBEAT_ANSWERS: dict[GroupState, ErrorCode] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
}
COMMIT_ANSWERS: dict[GroupState, ErrorCode] = {_COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS}


def next_state(state: GroupState, happening: Happening) -> GroupState:
    following = TRANSITIONS.get((state, happening))
    if following is None:
        raise InvariantBroken(f"a group in {state.value} cannot take {happening.name}: {happening.value}")
    return following


def can_rebalance(state: GroupState) -> bool:
    return (state, Happening.REBALANCE) in TRANSITIONS
