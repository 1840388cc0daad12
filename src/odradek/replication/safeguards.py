"""The rules that keep replicas alike, one function each, so that a test can switch one off and see who notices.

Called as `safeguards.name(...)`, never imported by name: replacing the attribute is the switch.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.ids import BrokerId


def maximal_isr(committed: Iterable[BrokerId], proposed: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """Whom the high watermark waits for while a proposal is under way: whatever its outcome, nobody of it is missed."""
    return tuple(dict.fromkeys((*committed, *proposed)))


def commits_with(in_sync: int, min_isr: int) -> bool:
    """Below the minimum nothing is committed: those who left hold all that is, and may lead again (KIP-966)."""
    return in_sync >= min_isr


def is_in_sync(log_end_offset: int, high_watermark: int, epoch_start_offset: int) -> bool:
    """Has all that is committed, and all that may have been before this leader knew of it."""
    return log_end_offset >= high_watermark and log_end_offset >= epoch_start_offset


def has_deleted_as_much(log_start_offset: int, leaders_start_offset: int) -> bool:
    """Whoever may lead next must not bring back what was deleted while it was away. A negative start is not said."""
    return not 0 <= log_start_offset < leaders_start_offset


def has_to_delete(is_alive: bool, is_eligible: bool) -> bool:
    """Before a deletion is over. One that is away and eligible joins no ISR before it leads: nobody would tell it."""
    return is_alive or is_eligible


def is_same_incarnation(fetched_with: int, registered: int) -> bool:
    """A broker that came back may have lost what it had: what it fetched before counts no more (KIP-903)."""
    return fetched_with == registered


def agrees_on_leader_epoch(theirs: int, ours: int) -> bool:
    """Whoever follows or consults another leader's epoch must not be served: its history may be another one."""
    return theirs == ours


def has_diverged(fetched_epoch: int, fetch_offset: int, known_epoch: int, known_end: int) -> bool:
    """The follower's last batch is not ours: we have no such epoch, or it ended before (KIP-101, KIP-595)."""
    return known_epoch < fetched_epoch or known_end < fetch_offset


def truncation_offset(own_epoch_end: int, leaders_epoch_end: int, high_watermark: int) -> int:  # noqa: ARG001
    """By epochs, never by the high watermark, which a follower hears of late (KIP-101)."""
    return min(own_epoch_end, leaders_epoch_end)


def is_known_alike(end_offset: int, leaders_start: int, high_watermark: int) -> bool:
    """Two histories that agree up to `end_offset`, says the leader. It has forgotten the epochs before its log start:
    what is here and ends there may have lost against records that are deleted now, unless it was committed."""
    return end_offset > leaders_start or high_watermark >= leaders_start


def is_of_followed_epoch(batch_epoch: int, followed_epoch: int) -> bool:
    """A batch from a later epoch came from a log that had been changed under a slow reply (KAFKA-18723)."""
    return batch_epoch <= followed_epoch


def is_still_wanted(asked_offset: int, log_end_offset: int, asked_epoch: int, leader_epoch: int) -> bool:
    """An answer counts only if neither this log nor its leader has changed since it was asked for."""
    return asked_offset == log_end_offset and asked_epoch == leader_epoch
