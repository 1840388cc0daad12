"""A walk over all groups in slices: a broker may have a million offsets, and no turn may look at all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from odradek.coordinator.group.offsets import OffsetStore

# About half a millisecond.
OFFSETS_PER_TURN = 500


class Sweep:
    __slots__ = ("_left",)

    def __init__(self, group_ids: Iterable[str]) -> None:
        self._left = deque(group_ids)

    def __bool__(self) -> bool:
        """Whether groups are left."""
        return bool(self._left)

    def look_again(self, group_id: str) -> None:
        """This group is the first of the next slice: the turn could not finish it."""
        self._left.appendleft(group_id)

    def slice(self, offsets: OffsetStore) -> Iterator[str]:
        """The next groups, with as many offsets as one turn looks at. At least one group."""
        room = OFFSETS_PER_TURN
        while self._left and room > 0:
            group_id = self._left.popleft()
            room -= 1 + len(offsets.latest(group_id))
            yield group_id
