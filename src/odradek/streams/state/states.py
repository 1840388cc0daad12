"""What a function with state is given: the state of one key, and timers for it.

    def spree(key, rows, count: State[int], seen: MapState[str, datetime], last: ListState[Position], timers: Timers):

The annotations are the schema: plain types, dataclasses, pydantic models, lists and dicts of them. State is read when
it is first used and written once per key and micro-batch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, MutableMapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.streams.durations import Duration, duration
from odradek.streams.event_time import milliseconds, moment

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from odradek.streams.state.values import ValueCodec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_ALMOST_A_MILLISECOND = timedelta(microseconds=999)  # so that no timer fires early
_UNREAD: Any = object()


class _GONE:
    """In the place of a value: deleted. A class, because copies of it are itself."""


class State(Generic[T]):
    """One value per key; None when there is none."""

    _value: Any
    _changed: bool

    def __init__(self, store: Any, codec: ValueCodec) -> None:  # noqa: ANN401 Spark's ValueState
        self._store, self._codec = store, codec
        self.forget()

    @property
    def value(self) -> T | None:
        if self._value is _UNREAD:
            stored = self._store.get()
            self._value = None if stored is None else self._codec.revived(stored[0])
        value: T | None = self._value
        return value

    @value.setter
    def value(self, value: T | None) -> None:
        self._value, self._changed = value, True

    def clear(self) -> None:
        self.value = None

    # --- for the processor

    def forget(self) -> None:
        """What was read belongs to another key now."""
        self._value, self._changed = _UNREAD, False

    def mark(self) -> Any:  # noqa: ANN401
        return copy.deepcopy(self.value), self._changed

    def back_to(self, mark: Any) -> None:  # noqa: ANN401
        self._value, self._changed = mark

    def save(self) -> None:
        if not self._changed and (self._value is _UNREAD or self._codec.scalar):
            return
        if self._value is None:
            self._store.clear()
        else:
            self._store.update((self._codec.plain(self._value),))


class ListState(Generic[T]):
    """A list per key that grows without being read."""

    _cleared: bool
    _added: list[T]

    def __init__(self, store: Any, codec: ValueCodec) -> None:  # noqa: ANN401 Spark's ListState
        self._store, self._codec = store, codec
        self.forget()

    def append(self, value: T) -> None:
        self._added.append(value)

    def extend(self, values: Iterable[T]) -> None:
        self._added.extend(values)

    def clear(self) -> None:
        self._cleared, self._added = True, []

    def __iter__(self) -> Iterator[T]:
        if not self._cleared:
            yield from (self._codec.revived(stored[0]) for stored in self._store.get())
        yield from list(self._added)

    def forget(self) -> None:
        self._cleared, self._added = False, []

    def mark(self) -> Any:  # noqa: ANN401
        return self._cleared, list(self._added)

    def back_to(self, mark: Any) -> None:  # noqa: ANN401
        self._cleared, self._added = mark

    def save(self) -> None:
        plain = [(self._codec.plain(value),) for value in self._added]
        if self._cleared and plain:
            self._store.put(plain)
        elif self._cleared:
            self._store.clear()
        elif plain:
            self._store.appendList(plain)


class MapState(MutableMapping[K, V]):
    """A dict per key of which only what is asked for is read. len() and iteration read all of it."""

    _cleared: bool
    _changes: dict[K, Any]
    _lent: dict[K, tuple[V, Any]]
    """Values that were read and can be changed in place, and as what they were read."""

    def __init__(self, store: Any, keys: ValueCodec, values: ValueCodec) -> None:  # noqa: ANN401 Spark's MapState
        self._store, self._keys, self._values = store, keys, values
        self.forget()

    def __getitem__(self, key: K) -> V:
        if key in self._changes:
            value = self._changes[key]
        elif key in self._lent:
            value = self._lent[key][0]
        elif self._cleared or (stored := self._store.getValue((self._keys.plain(key),))) is None:
            value = _GONE
        else:
            value = self._read(key, stored)
        if value is _GONE:
            raise KeyError(key)
        found: V = value
        return found

    def __setitem__(self, key: K, value: V) -> None:
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        self[key]
        self._changes[key] = _GONE

    def __iter__(self) -> Iterator[K]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self) -> Any:  # noqa: ANN401 a view; one reading instead of one per key
        return self._all().items()

    def values(self) -> Any:  # noqa: ANN401 a view
        return self._all().values()

    def clear(self) -> None:
        self._cleared, self._changes, self._lent = True, {}, {}

    def _all(self) -> dict[K, V]:
        stored = () if self._cleared else [(self._keys.revived(key[0]), value) for key, value in self._store.iterator()]
        found = {key: self._lent[key][0] if key in self._lent else self._read(key, value) for key, value in stored}
        return {key: value for key, value in (found | self._changes).items() if value is not _GONE}

    def _read(self, key: K, stored: Any) -> V:  # noqa: ANN401
        value: V = self._values.revived(stored[0])
        if not self._values.scalar:
            self._lent[key] = value, self._values.plain(value)
        return value

    def forget(self) -> None:
        self._cleared, self._changes, self._lent = False, {}, {}

    def mark(self) -> Any:  # noqa: ANN401
        return self._cleared, *copy.deepcopy((self._changes, self._lent))

    def back_to(self, mark: Any) -> None:  # noqa: ANN401
        self._cleared, self._changes, self._lent = mark

    def save(self) -> None:
        if self._cleared:
            self._store.clear()
        changed = {key: value for key, (value, was) in self._lent.items() if self._values.plain(value) != was}
        for key, value in (changed | self._changes).items():
            plain = (self._keys.plain(key),)
            if value is not _GONE:
                self._store.updateValue(plain, (self._values.plain(value),))
            elif not self._cleared:
                self._store.removeKey(plain)


class Timers:
    """Timers of one key. One fires when the clock (event time, or the wall's) has reached it.

    A time that is already past fires the next time the clock moves.
    """

    _cleared: bool
    _added: list[int]

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self.now = moment(0)
        self.forget()

    def after(self, length: Duration) -> None:
        """So long after `now`: the time of the row that was read last, or of the timer that fired."""
        self.at(self.now + duration(length))

    def at(self, time: datetime) -> None:
        self._added.append(milliseconds(time + _ALMOST_A_MILLISECOND))

    def clear(self) -> None:
        """None of the timers that were set before will fire."""
        self._cleared, self._added = True, []

    def forget(self) -> None:
        self._cleared, self._added = False, []

    def mark(self) -> Any:  # noqa: ANN401
        return self._cleared, list(self._added)

    def back_to(self, mark: Any) -> None:  # noqa: ANN401
        self._cleared, self._added = mark

    def save(self, clock_ms: int) -> None:
        if self._cleared:
            for time in list(self._handle.listTimers()):
                self._handle.deleteTimer(time)
        for time in self._added:
            # what comes out of a timer has its time, and rows older than the watermark would end the query
            self._handle.registerTimer(max(time, clock_ms + 1))
