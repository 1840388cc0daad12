"""Verification before the first batch of a transaction: its coordinator must know that the transaction is open.

A producer that was declared dead may send a batch after the abort of its transaction. No marker would follow such a
batch, and the last stable offset would stay at it. So before the first batch of a transaction the broker asks the
coordinator (KIP-890). An abort may arrive while the broker waits for the answer. Therefore the answer counts only for
the `Verification` that the question began with: a marker, or the first batch, ends it.
"""

from __future__ import annotations


class Verification:
    __slots__ = ("adds_partition", "epoch", "lowest_sequence", "started_ms")

    def __init__(self, *, epoch: int, sequence: int, adds_partition: bool, wall_ms: int) -> None:
        self.started_ms = wall_ms
        self.epoch = epoch
        # A batch with a higher sequence must not overtake the batch that waits for verification.
        self.lowest_sequence = sequence
        # The producer speaks transaction version 2: the question adds the partition to the transaction.
        self.adds_partition = adds_partition

    def wanted_for(self, epoch: int, sequence: int) -> None:
        """Another batch of the producer needs this verification, too."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


# The request is part of a transaction that should be open here: nothing was asked.
OPEN_HERE = Verification(epoch=-1, sequence=-1, adds_partition=False, wall_ms=0)
# `transaction.partition.verification.enable` is off, or the broker itself vouches for the transaction.
NOT_REQUIRED = Verification(epoch=-1, sequence=-1, adds_partition=False, wall_ms=0)
