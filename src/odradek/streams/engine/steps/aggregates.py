"""Spark's aggregate functions in Python: what they keep, how a row is added, how two are one, what comes out.

What is kept is plain data, so that it can be stored. Nulls are left out as Spark leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Kept = Any
Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Function:
    begin: Callable[[], Kept]
    add: Callable[[Kept, Arguments], Kept]
    merge: Callable[[Kept, Kept], Kept]
    result: Callable[[Kept], Any]


def _same(kept: Kept) -> Any:  # noqa: ANN401
    return kept


def _nothing() -> None:
    return None


def _counting(counts: Callable[[Arguments], bool]) -> Function:
    return Function(
        begin=int,
        add=lambda kept, values: kept + 1 if counts(values) else kept,
        merge=lambda one, other: one + other,
        result=_same,
    )


def _choosing(better: Callable[[Any, Any], bool]) -> Function:
    """The best of all values that are not null."""

    def choose(one: Any, other: Any) -> Any:  # noqa: ANN401
        if one is None or other is None:
            return one if other is None else other
        return other if better(other, one) else one

    return Function(begin=_nothing, add=lambda kept, values: choose(kept, values[0]), merge=choose, result=_same)


def _choosing_by(better: Callable[[Any, Any], bool]) -> Function:
    """The first argument where the second is the best; kept as a pair."""

    def choose(one: Kept, other: Kept) -> Kept:
        if one is None or other is None:
            return one if other is None else other
        return other if better(other[1], one[1]) else one

    return Function(
        begin=_nothing,
        add=lambda kept, values: choose(kept, (values[0], values[1]) if values[1] is not None else None),
        merge=choose,
        result=lambda kept: None if kept is None else kept[0],
    )


def _less(one: Any, other: Any) -> bool:  # noqa: ANN401 NaN is larger than every number
    if isinstance(one, float) and math.isnan(one):
        return False
    if isinstance(other, float) and math.isnan(other):
        return True
    return bool(one < other)


def _more(one: Any, other: Any) -> bool:  # noqa: ANN401
    return _less(other, one)


def _total(one: Any, other: Any) -> Any:  # noqa: ANN401
    if one is None or other is None:
        return one if other is None else other
    return one + other


_SUM = Function(begin=_nothing, add=lambda kept, values: _total(kept, values[0]), merge=_total, result=_same)
_AVERAGE = Function(
    begin=lambda: (None, 0),
    add=lambda kept, values: kept if values[0] is None else (_total(kept[0], values[0]), kept[1] + 1),
    merge=lambda one, other: (_total(one[0], other[0]), one[1] + other[1]),
    result=lambda kept: kept[0] / kept[1] if kept[1] else None,
)


def _list(kept: list[Any], values: Arguments) -> list[Any]:
    if values[0] is not None:
        kept.append(values[0])
    return kept


def _set(kept: list[Any], values: Arguments) -> list[Any]:
    """A list, since a value may be one that no set takes; the order is that of the rows."""
    if values[0] is not None and values[0] not in kept:
        kept.append(values[0])
    return kept


def _union(one: list[Any], other: list[Any]) -> list[Any]:
    return one + [value for value in other if value not in one]


_COLLECT_LIST = Function(begin=list, add=_list, merge=lambda one, other: one + other, result=list)
_COLLECT_SET = Function(begin=list, add=_set, merge=_union, result=list)
_DISTINCT = Function(
    begin=set,
    add=lambda kept, values: kept if None in values else kept | {values},
    merge=lambda one, other: one | other,
    result=len,
)
_FIRST = Function(
    begin=_nothing,
    add=lambda kept, values: (values[0],) if kept is None else kept,
    merge=lambda one, other: other if one is None else one,
    result=lambda kept: None if kept is None else kept[0],
)
_LAST = Function(
    begin=_nothing,
    add=lambda _, values: (values[0],),
    merge=lambda one, other: one if other is None else other,
    result=lambda kept: None if kept is None else kept[0],
)


def _moments(finish: Callable[[int, float], float | None]) -> Function:
    """Variances by Welford: count, mean, sum of squared distances."""

    def add(kept: tuple[int, float, float], values: Arguments) -> tuple[int, float, float]:
        return kept if values[0] is None else merge(kept, (1, float(values[0]), 0.0))

    def merge(one: tuple[int, float, float], other: tuple[int, float, float]) -> tuple[int, float, float]:
        count = one[0] + other[0]
        if not one[0] or not other[0]:
            return one if one[0] else other
        apart = other[1] - one[1]
        return count, one[1] + apart * other[0] / count, one[2] + other[2] + apart**2 * one[0] * other[0] / count

    return Function(begin=lambda: (0, 0.0, 0.0), add=add, merge=merge, result=lambda kept: finish(kept[0], kept[2]))


def _sample(count: int, squares: float) -> float | None:
    return squares / (count - 1) if count > 1 else None


def _population(count: int, squares: float) -> float | None:
    return squares / count if count else None


def _root(finish: Callable[[int, float], float | None]) -> Callable[[int, float], float | None]:
    def rooted(count: int, squares: float) -> float | None:
        variance = finish(count, squares)
        return None if variance is None else math.sqrt(variance)

    return rooted


def _every(one: bool | None, other: bool | None) -> bool | None:
    return (one if other is None else other) if one is None or other is None else one and other


def _some(one: bool | None, other: bool | None) -> bool | None:
    return (one if other is None else other) if one is None or other is None else one or other


FUNCTIONS: dict[str, Function] = {
    "count": _counting(lambda values: None not in values),
    "count_if": _counting(lambda values: bool(values[0])),
    "sum": _SUM,
    "avg": _AVERAGE,
    "min": _choosing(_less),
    "max": _choosing(_more),
    "min_by": _choosing_by(_less),
    "max_by": _choosing_by(_more),
    "collect_list": _COLLECT_LIST,
    "collect_set": _COLLECT_SET,
    "first": _FIRST,
    "last": _LAST,
    "bool_and": Function(_nothing, lambda kept, values: _every(kept, values[0]), _every, _same),
    "bool_or": Function(_nothing, lambda kept, values: _some(kept, values[0]), _some, _same),
    "var_samp": _moments(_sample),
    "var_pop": _moments(_population),
    "stddev_samp": _moments(_root(_sample)),
    "stddev_pop": _moments(_root(_population)),
    "count distinct": _DISTINCT,
}
"""By Spark's names. One that is not here is left to Spark's own aggregation."""


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Several functions at once. `columns`: the arguments of each, as indices into the values of a row."""

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]

    @property
    def functions(self) -> Sequence[Function]:
        return [FUNCTIONS[name] for name in self.names]

    def begin(self) -> list[Kept]:
        return [function.begin() for function in self.functions]

    def add(self, kept: list[Kept], values: tuple[Any, ...]) -> None:
        for index, (name, columns) in enumerate(zip(self.names, self.columns, strict=True)):
            kept[index] = FUNCTIONS[name].add(kept[index], tuple(values[column] for column in columns))

    def merge(self, one: list[Kept], other: list[Kept]) -> list[Kept]:
        return [function.merge(a, b) for function, a, b in zip(self.functions, one, other, strict=True)]

    def results(self, kept: list[Kept]) -> tuple[Any, ...]:
        return tuple(function.result(each) for function, each in zip(self.functions, kept, strict=True))
