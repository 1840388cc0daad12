"""The rules that keep transactions atomic, one function each. A test can disable one and check that other tests fail.

Call them as `safeguards.name(...)`, never import them by name: tests replace the attribute to disable a rule.
"""

from __future__ import annotations


def bumps_epoch_with_each_transaction() -> bool:
    """A delayed request of an earlier transaction has an older epoch, so it cannot end or join this one (KIP-890)."""
    return True


def is_current(sent_epoch: int, epoch: int) -> bool:
    """A producer that was replaced has an older epoch: it can neither join nor end the transaction of its successor."""
    return sent_epoch == epoch


def aborts_before_new_epoch(is_open: bool) -> bool:
    """A new producer gets its epoch only when the transaction of the old one has ended: one open transaction per id."""
    return is_open


def has_ended(unconfirmed: int) -> bool:
    """A transaction is complete when every partition has its marker. The next one may begin only then."""
    return unconfirmed == 0


def resumes(is_prepared: bool) -> bool:
    """A new coordinator writes the markers of a transaction whose outcome was decided: some partitions have theirs."""
    return is_prepared


def needs_new_producer_id(is_exhausted: bool) -> bool:
    """Epochs are 16 bits wide. One that starts again under the same producer id would not fence older ones."""
    return is_exhausted


def is_part_of(is_joined: bool) -> bool:
    """Records in a partition that has not joined would get no marker, and would block its readers for ever."""
    return is_joined
