"""The rules that protect data, one function each, so that a test can switch one off and see who notices.

Called as `safeguards.name(...)`, never imported by name: replacing the attribute is the switch.
"""

from __future__ import annotations


def is_current_leader_epoch(proposed: int, current: int) -> bool:
    """A leader that was deposed cannot change the ISR of its successor."""
    return proposed >= current


def is_current_partition_epoch(proposed: int, current: int) -> bool:
    """An ISR is proposed for the partition as it is, not as it was before a broker was fenced."""
    return proposed >= current


def is_same_incarnation(proposed_broker_epoch: int, registered_broker_epoch: int) -> bool:
    """KIP-903: a broker that has restarted may have less than the one that the leader saw catch up."""
    return proposed_broker_epoch == registered_broker_epoch


def may_join_isr(active: bool) -> bool:
    """KIP-841: a broker that is fenced or shutting down would count, and be elected, without being there."""
    return active


def may_elect_uncleanly(asked: bool) -> bool:
    """Records are given up for availability only where somebody said so."""
    return asked


def forgets_eligible_after_unclean_stop() -> bool:
    """KIP-966: what was acknowledged may have been in the memory that it lost."""
    return True


def fenced_broker_leaves_isr() -> bool:
    """Whoever is not heard acknowledges nothing."""
    return True


def caught_up_before_unfenced(metadata_offset: int, broker_epoch: int) -> bool:
    """A broker that has not replayed its own registration does not know yet what was taken from it."""
    return metadata_offset >= broker_epoch
