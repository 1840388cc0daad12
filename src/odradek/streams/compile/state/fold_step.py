"""An aggregate in Python per key, as a step of the engine: `function(aggregate, row) -> aggregate`.

Each micro-batch gives the newest aggregate of each key that changed. With `each_change` every change is given, for
steps with state that follow and must not depend on micro-batches. An aggregate comes back to the function as what
`initial` is: a dict, a dataclass, a tuple, a plain value; a Row when `initial` is None, which is for functions that
begin with their first row. When the function returns None the aggregate is over: a deletion.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T

from odradek.streams.compile.state.folded_values import FoldedValues
from odradek.streams.compile.state.values import row_reader
from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.shard import Arrival, Bench

Function = Callable[[Any, Row], Any]


class FoldStep:
    def __init__(
        self,
        keys: tuple[str, ...],
        initial: Any,  # noqa: ANN401
        function: Function,
        rows: T.StructType,
        result: T.StructType,
        *,
        each_change: bool = False,
    ) -> None:
        self._each_change = each_change
        self._function, self._initial = function, initial
        self._values = FoldedValues(initial, result)
        self._rows, self._result = rows, result
        self._keys = tuple(rows.names.index(name) for name in keys)
        self._shown_keys = tuple(index for index, name in enumerate(keys) if name not in result.names)
        self._changed: dict[bytes, tuple[Key, Arrival]] = {}
        self._is_ready = False

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        key = tuple(row.values[index] for index in self._keys)
        if None in key:
            return
        self._make_ready()
        place = key_bytes(key)
        aggregate = self._values.revived(step.cells.get(place))
        if aggregate is None:
            aggregate = copy.deepcopy(self._initial)
        aggregate = self._function(aggregate, self._read_row(self._make_row(*row.values)))
        step.cells.put(place, None if aggregate is None else self._values.storable(aggregate))
        self._changed[place] = key, row
        if self._each_change:
            self._give_changes(step)

    def pass_time(self, now: Micros, step: Bench) -> None: ...

    def end(self, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        self._give_changes(step)

    def _give_changes(self, step: Bench) -> None:
        for place, (key, row) in self._changed.items():
            stored = step.cells.get(place)
            columns = (None,) * len(self._result) if stored is None else stored
            shown = tuple(key[index] for index in self._shown_keys)
            step.give(row.time, (*shown, *columns), deleted=stored is None, at=row.at)
        self._changed.clear()

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._read_row = row_reader(self._rows)
            self._make_row = Row(*self._rows.names)
            self._is_ready = True
