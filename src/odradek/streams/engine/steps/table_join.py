"""Two tables as one: changelogs in, a changelog out.

A change on either side leads to at most one change of the joined row per micro-batch: its new state, or its deletion.
With `each_change` every change is given: for steps with state that follow, and must not depend on micro-batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.shard import Arrival, Bench, Values

How = Literal["inner", "left", "outer"]
Pair = tuple[Values | None, Values | None]
HOLDS: Mapping[str, tuple[bool, bool]] = {"inner": (True, True), "left": (True, False), "outer": (False, False)}
"""Which sides a joined row cannot be without."""


class TableJoin:
    def __init__(
        self,
        ports: tuple[int, int],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        kept: tuple[tuple[int, ...], tuple[int, ...]],
        how: How,
        *,
        each_change: bool = False,
    ) -> None:
        """`kept`: the columns of each side beside the key."""
        self._each_change = each_change
        self._ports, self._keys, self._kept, self._holds = ports, keys, kept, HOLDS[how]
        self._before: dict[bytes, tuple[Key, Pair]] = {}
        self._last: dict[bytes, Arrival] = {}

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        side = self._ports.index(row.port)
        key = tuple(row.values[index] for index in self._keys[side])
        if None in key:
            return
        place = key_bytes(key)
        pair: Pair = step.cells.get(place) or (None, None)
        self._before.setdefault(place, (key, pair))
        self._last[place] = row
        mine = None if row.deleted else tuple(row.values[index] for index in self._kept[side])
        changed = (mine, pair[1]) if side == 0 else (pair[0], mine)
        step.cells.put(place, changed if any(one is not None for one in changed) else None)
        if self._each_change:
            self._give_changes(step)

    def pass_time(self, now: Micros, step: Bench) -> None: ...

    def end(self, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        self._give_changes(step)

    def _give_changes(self, step: Bench) -> None:
        for place, (key, before) in self._before.items():
            pair = self._visible(step.cells.get(place) or (None, None))
            if pair != self._visible(before):
                row = self._last[place]
                step.give(row.time, self._joined(key, pair), record_key=row.record_key, deleted=pair is None, at=row.at)
        self._before.clear()
        self._last.clear()

    def _visible(self, pair: Pair) -> Pair | None:
        there = [row is not None for row in pair]
        held = all(is_there for is_there, must in zip(there, self._holds, strict=True) if must)
        return pair if held and any(there) else None

    def _joined(self, key: Key, pair: Pair | None) -> Values:
        left, right = pair or (None, None)
        nothing = [(None,) * len(kept) for kept in self._kept]
        return (*key, *(nothing[0] if left is None else left), *(nothing[1] if right is None else right))
