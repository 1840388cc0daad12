"""The states and timers of one key at a time, in the cells of the engine's store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odradek.streams.compile.state.parameters import Declared
from odradek.streams.compile.state.states import ListState, MapState, State, Timers
from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.shard import Bench

AnyState = State[Any] | ListState[Any] | MapState[Any, Any]
MICROS = 1000


class KeyStates:
    """`bind` fills the state objects with what a key has; `save` puts what became of it back into its cell.

    A key that has neither state nor a timer any more has no cell.
    """

    def __init__(self, declared: Mapping[str, Declared]) -> None:
        self.key: Key = ()
        self.place = b""
        self.delay: Micros = 0
        self.clock: Micros = 0
        self._kept: dict[str, Any] = {}
        self._states: dict[str, AnyState] = {name: self._state(name, one) for name, one in declared.items()}
        self.timers = Timers(self)

    def bind(self, key: Key, place: bytes, step: Bench, delay: Micros, clock: Micros) -> None:
        """`clock`: event time or the wall's; a timer fires when that is `delay` past it."""
        self.key, self.place, self.delay, self.clock, self._step = key, place, delay, clock, step
        self._kept = step.cells.get(place) or {"key": key}
        for state in self._states.values():
            state.forget()
        self.timers.forget()

    def __getitem__(self, name: str) -> AnyState:
        return self._states[name]

    @property
    def newest_ms(self) -> int | None:
        newest: int | None = self._kept.get("newest")
        return newest

    @newest_ms.setter
    def newest_ms(self, newest: int) -> None:
        self._kept["newest"] = newest

    def clear(self) -> None:
        for state in self._states.values():
            state.clear()
            state.settle(state.news())

    def settle(self) -> None:
        """What was done holds; raises TypeError, and leaves all as it was, if it cannot be stored."""
        parts = [*self._states.values(), self.timers]
        news = [part.news() for part in parts]  # all of them before the first one holds
        for part, done in zip(parts, news, strict=True):
            part.settle(done)

    def undo(self) -> None:
        for part in [*self._states.values(), self.timers]:
            part.undo()

    def save(self) -> None:
        for state in self._states.values():
            state.save()
        self.timers.save(self.clock // MICROS - self.delay // MICROS)
        if self._kept.keys() > {"key"} or self._step.timers.of(self.place):  # a timer needs the key, too
            self._step.cells.put(self.place, self._kept)
        elif self._step.cells.get(self.place) is not None:
            self._step.cells.remove(self.place)

    # --- what Timers asks for

    def listTimers(self) -> Iterator[int]:  # noqa: N802 Spark's name
        return iter([(due - self.delay) // MICROS for due in self._step.timers.of(self.place)])

    def deleteTimer(self, time_ms: int) -> None:  # noqa: N802
        self._step.timers.cancel(time_ms * MICROS + self.delay, self.place)

    def registerTimer(self, time_ms: int) -> None:  # noqa: N802
        self._step.timers.set(time_ms * MICROS + self.delay, self.place)

    def _state(self, name: str, declared: Declared) -> AnyState:
        codec, *more = declared.codecs
        if declared.kind is State:
            return State(_Value(self, name), codec)
        if declared.kind is ListState:
            return ListState(_List(self, name), codec)
        return MapState(_Map(self, name), codec, more[0])

    def kept(self, name: str) -> Any:  # noqa: ANN401
        return self._kept.get(f"state {name}")

    def keep(self, name: str, value: Any) -> None:  # noqa: ANN401
        if value is None:
            self._kept.pop(f"state {name}", None)
        else:
            self._kept[f"state {name}"] = value


class _Value:
    def __init__(self, states: KeyStates, name: str) -> None:
        self._states, self._name = states, name

    def get(self) -> tuple[Any] | None:
        value = self._states.kept(self._name)
        return None if value is None else (value,)

    def update(self, value: tuple[Any]) -> None:
        self._states.keep(self._name, value[0])

    def clear(self) -> None:
        self._states.keep(self._name, None)


class _List:
    def __init__(self, states: KeyStates, name: str) -> None:
        self._states, self._name = states, name

    def get(self) -> Iterator[tuple[Any]]:
        return iter(self._states.kept(self._name) or ())

    def put(self, rows: list[tuple[Any]]) -> None:
        self._states.keep(self._name, list(rows))

    def appendList(self, rows: list[tuple[Any]]) -> None:  # noqa: N802 Spark's name
        self._states.keep(self._name, [*self.get(), *rows])

    def clear(self) -> None:
        self._states.keep(self._name, None)


class _Map:
    """By the bytes of its key, since a key may be something that no dict takes."""

    def __init__(self, states: KeyStates, name: str) -> None:
        self._states, self._name = states, name

    def _entries(self) -> dict[bytes, tuple[Any, Any]]:
        return self._states.kept(self._name) or {}

    def getValue(self, key: tuple[Any]) -> tuple[Any] | None:  # noqa: N802
        entry = self._entries().get(key_bytes(key))
        return None if entry is None else (entry[1],)

    def updateValue(self, key: tuple[Any], value: tuple[Any]) -> None:  # noqa: N802
        self._states.keep(self._name, self._entries() | {key_bytes(key): (key[0], value[0])})

    def removeKey(self, key: tuple[Any]) -> None:  # noqa: N802
        left = {place: entry for place, entry in self._entries().items() if place != key_bytes(key)}
        self._states.keep(self._name, left or None)

    def iterator(self) -> Iterator[tuple[tuple[Any], tuple[Any]]]:
        return iter([((key,), (value,)) for key, value in self._entries().values()])

    def clear(self) -> None:
        self._states.keep(self._name, None)
