"""Each row of a stream with the row that a table had for its key at the row's time.

The table is kept with its past, as far back as a row of the stream may come. Among the
versions before it in the canonical order, a row sees the newest version that is not newer than the row.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import key_bytes
from odradek.streams.engine.shard import Arrival, Bench, Values

Version = tuple[Micros, Values | None]


class Lookup:
    def __init__(
        self,
        ports: tuple[int, int],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        added: tuple[int, ...],
        *,
        left: bool,
        late: Micros,
        as_of: bool,
    ) -> None:
        """`ports`: of the stream and of the table; `added`: the columns that the table adds."""
        self._stream, self._table = ports
        self._keys, self._added = keys, added
        self._left, self._late, self._as_of = left, late, as_of

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        if row.port == self._table:
            self._change(row, now, step)
        else:
            self._find(row, step)

    def pass_time(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            self._keep(due[1], self._in_reach(step.cells.get(due[1]) or [], due[0]), step)

    def end(self, now: Micros | None, step: Bench) -> None: ...

    def _change(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        key = self._key(row.values, 1)
        if None in key:
            return
        place = key_bytes(key)
        version: Version = row.time, None if row.deleted else tuple(row.values[index] for index in self._added)
        versions: list[Version] = step.cells.get(place) or []
        if self._as_of:
            versions.insert(bisect_right(versions, row.time, key=_when), version)
            versions = versions if now is None else self._in_reach(versions, now)
        else:
            versions = [version]
        if self._keep(place, versions, step) and self._as_of and row.deleted:
            step.timers.set(row.time + self._late, place)

    def _in_reach(self, versions: list[Version], now: Micros) -> list[Version]:
        """Those that a row may still see."""
        return versions[max(bisect_right(versions, now - self._late, key=_when) - 1, 0) :]

    def _keep(self, place: bytes, versions: list[Version], step: Bench) -> bool:
        """Whether there is anything to keep: a deletion alone is as good as nothing."""
        is_over = all(values is None for _, values in versions)
        step.cells.put(place, None if is_over else versions)
        return not is_over

    def _find(self, row: Arrival, step: Bench) -> None:
        found = self._version(row, step)
        if found is not None or self._left:
            added = found if found is not None else (None,) * len(self._added)
            step.give(row.time, (*row.values, *added), record_key=row.record_key, deleted=row.deleted)

    def _version(self, row: Arrival, step: Bench) -> Values | None:
        key = self._key(row.values, 0)
        versions: list[Version] | None = None if None in key else step.cells.get(key_bytes(key))
        if not versions:
            return None
        index = bisect_right(versions, row.time, key=_when) if self._as_of else len(versions)
        return versions[index - 1][1] if index else None

    def _key(self, values: Values, side: int) -> tuple[Any, ...]:
        return tuple(values[index] for index in self._keys[side])


def _when(version: Version) -> Micros:
    return version[0]
