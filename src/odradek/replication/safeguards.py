"""The rules that keep replicas consistent, one function each. A test can disable one and check that other tests fail.

Call them as `safeguards.name(...)`, never import them by name: tests replace the attribute to disable a rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.ids import BrokerId


def maximal_isr(committed: Iterable[BrokerId], proposed: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    """The high watermark waits for both ISRs while a proposal is in flight, so that it is right for either outcome."""
    return tuple(dict.fromkeys((*committed, *proposed)))


def commits_with(in_sync: int, min_isr: int) -> bool:
    """Below the minimum ISR nothing is committed: removed replicas have all committed records, may lead (KIP-966)."""
    return in_sync >= min_isr


def is_in_sync(log_end_offset: int, high_watermark: int, epoch_start_offset: int) -> bool:
    """Has all records that are committed, or that earlier leaders may have committed."""
    return log_end_offset >= high_watermark and log_end_offset >= epoch_start_offset


def has_deleted_as_much(log_start_offset: int, leaders_start_offset: int) -> bool:
    """A next leader must not bring back records that were deleted while it was away. Negative: start unknown."""
    return not 0 <= log_start_offset < leaders_start_offset


def has_to_delete(is_alive: bool, is_eligible: bool) -> bool:
    """DeleteRecords also waits for offline eligible replicas: one could lead without learning of the deletion."""
    return is_alive or is_eligible


def is_same_incarnation(fetched_with: int, registered: int) -> bool:
    """A restarted broker may have lost records: its fetches before the restart no longer count (KIP-903)."""
    return fetched_with == registered


def agrees_on_leader_epoch(theirs: int, ours: int) -> bool:
    """A follower or consumer with another leader epoch must not be served: its log may have diverged."""
    return theirs == ours


def has_diverged(fetched_epoch: int, fetch_offset: int, known_epoch: int, known_end: int) -> bool:
    """The leader lacks the follower's last batch: it has no such epoch, or it ended earlier (KIP-101, KIP-595)."""
    return known_epoch < fetched_epoch or known_end < fetch_offset


def truncation_offset(own_epoch_end: int, leaders_epoch_end: int, high_watermark: int) -> int:  # noqa: ARG001
    """Truncate by epochs, never by the high watermark, which a follower learns late (KIP-101)."""
    return min(own_epoch_end, leaders_epoch_end)


def is_known_alike(end_offset: int, leaders_start: int, high_watermark: int) -> bool:
    """Whether the leader's statement that both logs agree up to `end_offset` can be trusted.

    A leader does not know the epochs before its log start. Records here that end at its log start may differ from
    deleted records of the leader, unless they were committed.
    """
    return end_offset > leaders_start or high_watermark >= leaders_start


def is_of_followed_epoch(batch_epoch: int, followed_epoch: int) -> bool:
    """A batch of a later epoch means that the leader's log changed while it sent the reply (KAFKA-18723)."""
    return batch_epoch <= followed_epoch


def is_still_wanted(asked_offset: int, log_end_offset: int, asked_epoch: int, leader_epoch: int) -> bool:
    """A reply is used only if neither this log nor its leader epoch has changed since the request."""
    return asked_offset == log_end_offset and asked_epoch == leader_epoch
