"""What a function with state is given: the state of one key, and timers for it.

    def spree(key, rows, count: State[int], seen: MapState[str, datetime], last: ListState[Position], timers: Timers):

The annotations are the schema: plain types, dataclasses, pydantic models, lists and dicts of them. State is read when
it is first used and written once per key and micro-batch; what is done to it holds from `settle` on, or is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from odradek.pipeline.durations import Duration, duration
from odradek.streams.compile.event_time import milliseconds, moment

if TYPE_CHECKING:
    from odradek.streams.compile.state.values import ValueCodec

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_ALMOST_A_MILLISECOND = timedelta(microseconds=999)  # so that no timer fires early
_UNREAD: Any = object()
_GONE: Any = object()
"""In the place of a value: deleted."""


class TimerHandle(Protocol):
    """Where the timers of the key at hand are set: Spark's names."""

    def listTimers(self) -> Iterator[int]: ...  # noqa: N802

    def deleteTimer(self, time_ms: int, /) -> None: ...  # noqa: N802

    def registerTimer(self, time_ms: int, /) -> None: ...  # noqa: N802


class State(Generic[T]):
    """One value per key; None when there is none."""

    _value: Any
    """What the function sees and may change in place."""
    _settled: Any
    _assigned: bool
    _changed: bool

    def __init__(self, store: Any, codec: ValueCodec) -> None:  # noqa: ANN401 Spark's ValueState
        self._store, self._codec = store, codec
        self.forget()

    @property
    def value(self) -> T | None:
        if self._value is _UNREAD:
            if self._settled is _UNREAD:
                stored = self._store.get()
                self._settled = None if stored is None else stored[0]
            self._value = self._codec.revived(self._settled)
        value: T | None = self._value
        return value

    @value.setter
    def value(self, value: T | None) -> None:
        self._value, self._assigned = value, True

    def clear(self) -> None:
        self.value = None

    # --- for the processor

    def forget(self) -> None:
        """What was read belongs to another key now."""
        self._value = self._settled = _UNREAD
        self._assigned = self._changed = False

    def news(self) -> Any:  # noqa: ANN401
        """What was done since the last time, for `settle`. Raises TypeError if it cannot be stored."""
        touched = self._assigned or (self._value is not _UNREAD and not self._codec.scalar)
        return self._codec.storable(self._value) if touched else _UNREAD

    def settle(self, news: Any) -> None:  # noqa: ANN401
        """What was done since the last time holds."""
        if news is not _UNREAD:
            self._settled, self._assigned, self._changed = news, False, True

    def undo(self) -> None:
        """What was done since the last time was not done."""
        self._value, self._assigned = _UNREAD, False

    def save(self) -> None:
        self.settle(self.news())
        if self._changed and self._settled is None:
            self._store.clear()
        elif self._changed:
            self._store.update((self._settled,))


class _Growing:
    """What only grows, until it is cleared."""

    _cleared: bool
    _added: list[Any]
    _settled: tuple[bool, list[Any], int]

    def clear(self) -> None:
        """All that was there before is gone."""
        self._cleared, self._added = True, []

    def forget(self) -> None:
        self._cleared, self._added = False, []
        self.settle()

    def news(self) -> Any: ...  # noqa: ANN401

    def settle(self, _news: Any = None) -> None:  # noqa: ANN401
        self._settled = self._cleared, self._added, len(self._added)

    def undo(self) -> None:
        self._cleared, self._added, length = self._settled
        del self._added[length:]


class ListState(_Growing, Generic[T]):
    """A list per key that grows without being read. What is appended is as it was then, whatever becomes of it."""

    def __init__(self, store: Any, codec: ValueCodec) -> None:  # noqa: ANN401 Spark's ListState
        self._store, self._codec = store, codec
        self.forget()

    def append(self, value: T) -> None:
        self._added.append(self._codec.storable(value))

    def extend(self, values: Iterable[T]) -> None:
        self._added.extend(map(self._codec.storable, values))

    def __iter__(self) -> Iterator[T]:
        if not self._cleared:
            yield from (self._codec.revived(stored[0]) for stored in self._store.get())
        yield from map(self._codec.revived, list(self._added))

    def save(self) -> None:
        rows = [(value,) for value in self._added]
        if self._cleared and rows:
            self._store.put(rows)
        elif self._cleared:
            self._store.clear()
        elif rows:
            self._store.appendList(rows)


class MapState(MutableMapping[K, V]):
    """A dict per key of which only what is asked for is read. len() and iteration read all of it."""

    _settled_cleared: bool
    _settled: dict[K, Any]
    """As it will be stored, or _GONE."""
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
        elif (stored := self._stored(key)) is _GONE:
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

    def _stored(self, key: K) -> Any:  # noqa: ANN401
        if self._cleared:
            return _GONE
        if key in self._settled:
            return self._settled[key]
        stored = None if self._settled_cleared else self._store.getValue((self._keys.storable(key),))
        return _GONE if stored is None else stored[0]

    def _all(self) -> dict[K, V]:
        stored: dict[K, Any] = {}
        if not self._cleared and not self._settled_cleared:
            stored = {self._keys.revived(key[0]): value[0] for key, value in self._store.iterator()}
        if not self._cleared:
            stored |= self._settled
        found: dict[K, Any] = {
            key: self._lent[key][0] if key in self._lent else self._read(key, value)
            for key, value in stored.items()
            if value is not _GONE
        }
        return {key: value for key, value in (found | self._changes).items() if value is not _GONE}

    def _read(self, key: K, stored: Any) -> V:  # noqa: ANN401
        value: V = self._values.revived(stored)
        if not self._values.scalar:
            self._lent[key] = value, self._values.storable(value)
        return value

    def forget(self) -> None:
        self._settled_cleared, self._settled = False, {}
        self.undo()

    def news(self) -> Any:  # noqa: ANN401
        lent = {key: (self._values.storable(value), was) for key, (value, was) in self._lent.items()}
        changed = {key: value for key, (value, was) in lent.items() if value != was}
        for key, value in self._changes.items():
            self._keys.storable(key)
            changed[key] = value if value is _GONE else self._values.storable(value)
        return changed

    def settle(self, news: Any) -> None:  # noqa: ANN401
        if self._cleared:
            self._settled_cleared, self._settled = True, {}
        self._settled |= news
        self.undo()

    def undo(self) -> None:
        self._cleared, self._changes, self._lent = False, {}, {}

    def save(self) -> None:
        self.settle(self.news())
        if self._settled_cleared:
            self._store.clear()
        for key, value in self._settled.items():
            stored_key = (self._keys.storable(key),)
            if value is not _GONE:
                self._store.updateValue(stored_key, (value,))
            elif not self._settled_cleared:
                self._store.removeKey(stored_key)


class Timers(_Growing):
    """Timers of one key. One fires when the clock (event time, or the wall's) has reached it.

    A timer in the past fires when the clock next advances. `clear()` cancels all timers that were set before it.
    """

    def __init__(self, handle: TimerHandle) -> None:
        self._handle = handle
        self.now = moment(0)
        self.forget()

    def after(self, length: Duration) -> None:
        """Set a timer `length` after `now`, which is the time of the row read last, or of the timer that fired."""
        self.at(self.now + duration(length))

    def at(self, time: datetime) -> None:
        self._added.append(milliseconds(time + _ALMOST_A_MILLISECOND))

    def save(self, clock_ms: int) -> None:
        if self._cleared:
            for time in list(self._handle.listTimers()):
                self._handle.deleteTimer(time)
        for time in self._added:
            # what comes out of a timer has its time, and rows older than the watermark would end the query
            self._handle.registerTimer(max(time, clock_ms + 1))
