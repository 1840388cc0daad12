"""The rules that protect data, one function each, so that a test can switch off one rule and check that it is needed.

Call them as `safeguards.name(...)` and never import them by name: tests replace the attribute.
"""

from __future__ import annotations


def is_current_leader_epoch(proposed: int, current: int) -> bool:
    """A deposed leader cannot change the ISR of its successor."""
    return proposed >= current


def is_current_partition_epoch(proposed: int, current: int) -> bool:
    """A proposal for an old state of the partition, such as before a broker was fenced, is refused."""
    return proposed >= current


def is_same_incarnation(proposed_broker_epoch: int, registered_broker_epoch: int) -> bool:
    """KIP-903: a restarted broker may have less data than the incarnation that caught up."""
    return proposed_broker_epoch == registered_broker_epoch


def may_join_isr(active: bool) -> bool:
    """KIP-841: otherwise a fenced or stopping broker would be in the ISR, and could be elected."""
    return active


def may_elect_uncleanly(asked: bool) -> bool:
    """Unclean elections lose records and need an explicit request or config."""
    return asked


def forgets_eligible_after_unclean_stop() -> bool:
    """KIP-966: acknowledged records may have been only in memory."""
    return True


def fenced_broker_leaves_isr() -> bool:
    """A fenced broker does not count for acknowledgements."""
    return True


def caught_up_before_unfenced(metadata_offset: int, broker_epoch: int) -> bool:
    """A broker that has not replayed its own registration does not know yet which leaderships it lost."""
    return metadata_offset >= broker_epoch
