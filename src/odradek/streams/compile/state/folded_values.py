"""Aggregates of a user's function as values in state, and back.

An aggregate comes back to the function as what `initial` is: a dict, a dataclass, a tuple, a plain value; a Row when
`initial` is None, which is for functions that begin with their first row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T

from odradek.streams.compile.python_rows import as_columns
from odradek.streams.compile.state.storing import storer
from odradek.streams.compile.state.values import plain, reviver, stored_reader


class FoldedValues:
    def __init__(self, initial: Any, result: T.StructType) -> None:  # noqa: ANN401 the user's own state
        self._initial, self._result = initial, result
        self._revive = reviver(type(initial))  # here and now: in a worker the types may have no module
        self._is_ready = False

    def columns(self, aggregate: Any) -> dict[str, Any]:  # noqa: ANN401
        names = self._result.names
        if isinstance(aggregate, Row):
            return {name: plain(aggregate[name]) for name in names}
        if len(names) == 1 and not _is_record(aggregate):
            return {names[0]: plain(aggregate)}
        return {name: plain(value) for name, value in as_columns(aggregate, names).items()}

    def storable(self, aggregate: Any) -> tuple[Any, ...]:  # noqa: ANN401
        self._make_ready()
        columns = self.columns(aggregate)
        return tuple(store(value) for store, value in zip(self._storers, columns.values(), strict=True))

    def revived(self, entry: tuple[Any, ...] | None) -> Any:  # noqa: ANN401
        """As the function last returned it, as far as `initial` tells."""
        if entry is None:
            return None
        self._make_ready()
        row = self._read_stored(entry)
        initial = self._initial
        if initial is None:
            return row
        if len(self._result) == 1 and not _is_record(initial):
            return row[0]
        if isinstance(initial, Mapping):
            return row.asDict(recursive=True)
        if isinstance(initial, tuple | list):
            return type(initial)(row)
        return self._revive(row)

    def _make_ready(self) -> None:
        """In the worker: what it makes does not travel."""
        if not self._is_ready:
            self._read_stored = stored_reader(self._result)
            self._storers = [storer(f.dataType, f.name) for f in self._result]
            self._is_ready = True


def _is_record(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Mapping | tuple) or dataclasses.is_dataclass(value) or hasattr(value, "model_dump")
