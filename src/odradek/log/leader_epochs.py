"""Which leader epoch began at which offset (KIP-101, KIP-279).

The state in memory is authoritative. The copy on disk covers at least everything below the recovery point; recovery
reads the epochs above it from the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from odradek.base.invariants import invariant

UNDEFINED = (-1, -1)


class LeaderEpochs:
    __slots__ = ("changed", "epochs", "starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        # Both strictly increasing: the i-th epoch holds the offsets from the i-th start to the next one.
        self.epochs: list[int] = []
        self.starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.changed = False  # since it was last written to disk

    @property
    def latest(self) -> int:
        return self.epochs[-1] if self.epochs else -1

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`. Entries that contradict this are removed: their records were truncated."""
        invariant(epoch >= 0 and start_offset >= 0, f"epoch {epoch} at offset {start_offset}")
        if self.epochs and epoch == self.epochs[-1] and start_offset >= self.starts[-1]:
            return
        while self.epochs and (self.epochs[-1] > epoch or self.starts[-1] >= start_offset):
            self.epochs.pop()
            self.starts.pop()
        self.changed = True
        if self.epochs and self.epochs[-1] == epoch:
            # Later epochs began here and wrote nothing. The start of this epoch does not change.
            return
        self.epochs.append(epoch)
        self.starts.append(start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        while self.starts and self.starts[-1] >= end_offset:
            self.epochs.pop()
            self.starts.pop()
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The epoch that holds `start_offset` now begins there. Older epochs are removed."""
        held = bisect_right(self.starts, start_offset) - 1
        if held < 0 or (held == 0 and self.starts[0] == start_offset):
            return
        del self.epochs[:held], self.starts[:held]
        self.starts[0] = start_offset
        self.changed = True

    def clear(self) -> None:
        self.changed = self.changed or bool(self.epochs)
        self.epochs.clear()
        self.starts.clear()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch that is not larger than `epoch`, and its end offset."""
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1]:
            return UNDEFINED
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        after = bisect_right(self.epochs, epoch)
        floor = self.epochs[after - 1] if after else epoch
        return floor, self.starts[after]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 when unknown."""
        held = bisect_right(self.starts, offset) - 1
        return self.epochs[held] if held >= 0 else -1
