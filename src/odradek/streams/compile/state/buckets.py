"""Rows of many keys handled as one group, and the state of each key.

Spark calls a processor once per group, and each call costs a conversation with the JVM and some pandas. Grouped by a
bucket of keys instead of by key, a large micro-batch pays that 64 times instead of once per key; the state of a key is
then an entry of its bucket's map.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

BUCKETS = 64
"""Part of the layout of the state: a checkpoint taken with one number cannot be read with another."""

SCAN_FROM = 32
"""Keys of one micro-batch and bucket from which reading the bucket in bulk is tried before asking key by key."""

SCAN_RATIO = 2
"""Entries read in bulk per key that is wanted: an entry costs 35 us of CPU, a question 78 (a key, four columns)."""

_UNKNOWN: Any = object()
Key = tuple[Any, ...]
Entry = tuple[Any, ...]


def bucket(keys: list[Column]) -> Column:
    return F.pmod(F.hash(*keys), F.lit(BUCKETS))


class Entries:
    """The map of one bucket during one call: each key is read at most once, and written once if it changed."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._known: dict[Key, Entry | None] = {}
        self._changed: set[Key] = set()

    def expect(self, keys: Iterable[Key]) -> None:
        """These will be asked for: read them in bulk if the bucket is small enough for that to pay."""
        wanted = set(keys) - self._known.keys()
        if len(wanted) < SCAN_FROM:
            return
        most = SCAN_RATIO * len(wanted)
        for count, (key, entry) in enumerate(self._state.iterator()):
            if count == most:
                return
            self._known.setdefault(tuple(key), tuple(entry))
        for key in wanted:
            self._known.setdefault(key, None)

    def __getitem__(self, key: Key) -> Entry | None:
        if key not in self._known:
            entry = self._state.getValue(key)
            self._known[key] = None if entry is None else tuple(entry)
        return self._known[key]

    def __setitem__(self, key: Key, entry: Entry | None) -> None:
        if self._known.get(key, _UNKNOWN) != entry:
            self._known[key] = entry
            self._changed.add(key)

    def save(self) -> None:
        for key in self._changed:
            entry = self._known[key]
            if entry is None:
                self._state.removeKey(key)
            else:
                self._state.updateValue(key, entry)
        self._changed.clear()
