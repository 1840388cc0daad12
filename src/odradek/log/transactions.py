"""The transactions of a log that keep its last stable offset back.

A transaction is open from its first batch to its marker. After the marker it stays unstable until the high watermark
has passed the marker: until then, another replica that becomes leader may have the batches without the marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

NOTHING_UNSTABLE = 2**63 - 1

# version, producer id, first offset, last offset, last stable offset
ABORTED_ENTRY = Struct(">hqqqq")
ABORTED_VERSION = 0


class AbortedTransaction(NamedTuple):
    """One entry of a `.txnindex` file."""

    producer_id: int
    first_offset: int
    last_offset: int  # of its marker
    last_stable_offset: int  # just after its marker, without regard to the high watermark


class Transactions:
    __slots__ = ("_decided", "_open", "unstable_from")

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        # First offsets, ascending: a transaction begins at the log end.
        self._open = dict.fromkeys(sorted(first_offsets))
        # With a marker that the high watermark had not passed when last looked at: first offset by marker offset,
        # ascending.
        self._decided: dict[int, int] = {}
        # The first offset of any of them. If it is not below the high watermark, everything there is stable.
        self.unstable_from = self._first()

    def __len__(self) -> int:
        """How many transactions are open."""
        return len(self._open)

    def begin(self, first_offset: int) -> None:
        self._open[first_offset] = None
        self.unstable_from = min(self.unstable_from, first_offset)

    def end(self, first_offset: int, marker_offset: int) -> None:
        del self._open[first_offset]
        self._decided[marker_offset] = first_offset

    def hold_back(self, first_offset: int) -> None:
        """A transaction with a marker that readers cannot learn about: it counts as open."""
        self._open = dict.fromkeys(sorted((*self._open, first_offset)))
        self.unstable_from = self._first()

    def first_open(self) -> int:
        """The first offset of the oldest open transaction."""
        return next(iter(self._open), NOTHING_UNSTABLE)

    def first_unstable(self, high_watermark: int) -> int:
        """The first offset that read_committed may not see yet. The high watermark bounds it, too."""
        if self._decided and next(iter(self._decided)) < high_watermark:
            self._stabilize(high_watermark)
        return self.unstable_from

    def _stabilize(self, high_watermark: int) -> None:
        passed = []
        for marker_offset in self._decided:
            if marker_offset >= high_watermark:
                break
            passed.append(marker_offset)
        for marker_offset in passed:
            del self._decided[marker_offset]
        self.unstable_from = self._first()

    def _first(self) -> int:
        return min(self.first_open(), min(self._decided.values(), default=NOTHING_UNSTABLE))
