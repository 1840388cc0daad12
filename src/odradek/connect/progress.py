"""Offsets that a sink stores with its data, and whether they or the consumer group's offsets count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The target has the records before the offset `end`.

    The last batch began at the offset `begin`, and the first one since the target follows the group at `first`.
    """

    first: int
    begin: int
    end: int

    def continues_at(self, committed: int | None) -> int | None:
        """The offset after the data, unless a user has set the group's offset: then None.

        After a crash between the target's commit and the group's, the group is exactly one batch behind.
        """
        is_first_batch = committed is None and self.begin == self.first
        return self.end if is_first_batch or committed in (self.begin, self.end) else None

    def after(self, begin: int, end: int) -> Progress:
        return Progress(first=begin if self.first < 0 else self.first, begin=begin, end=end)


NEW = Progress(first=-1, begin=-1, end=-1)
