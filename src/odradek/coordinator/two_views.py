"""A map with two views: the newest, for decisions, and the committed one, for readers.

A change enters the newest view as soon as it is in the log. It enters the committed view when the high watermark has
passed it, so that a change of leader never takes back what was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from odradek.base.ids import Offset

K = TypeVar("K")
V = TypeVar("V")


class TwoViews(Generic[K, V]):
    __slots__ = ("_before", "_pending", "newest")

    def __init__(self) -> None:
        self.newest: dict[K, V] = {}
        # By key, if it has changes above the high watermark: the committed value (None: no entry) and the offset of
        # the last of these changes.
        self._before: dict[K, tuple[V | None, Offset]] = {}
        # These changes in log order.
        self._pending: deque[tuple[Offset, K, V | None]] = deque()

    def __bool__(self) -> bool:
        """False when both views are empty."""
        return bool(self.newest or self._before)

    def put(self, key: K, value: V | None, at: Offset) -> None:
        """None removes the entry."""
        before = self._before.get(key)
        self._before[key] = (self.newest.get(key) if before is None else before[0], at)
        self._pending.append((at, key, value))
        if value is None:
            self.newest.pop(key, None)
        else:
            self.newest[key] = value

    def commit(self, high_watermark: Offset) -> None:
        pending, before = self._pending, self._before
        while pending and pending[0][0] < high_watermark:
            at, key, value = pending.popleft()
            last = before[key][1]
            if last == at:
                del before[key]
            else:
                before[key] = value, last

    def committed(self) -> Mapping[K, V]:
        if not self._before:
            return self.newest
        merged = dict(self.newest)
        for key, (value, _) in self._before.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return merged

    def committed_value(self, key: K) -> V | None:
        before = self._before.get(key)
        return self.newest.get(key) if before is None else before[0]
