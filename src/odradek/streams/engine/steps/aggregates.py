"""Spark's aggregate functions in Python: what they keep, how a row is added, how two are one, what comes out.

What is kept is plain data, so that it can be stored. `add` and `merge` may change what is kept in place. Nulls are left
out as Spark leaves them out, and values are equal and in order as Spark has it: NaN is equal to itself and larger than
every number, a null inside a struct or an array is less than every value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from odradek.streams.engine.keys import identity

Kept = Any
Arguments = tuple[Any, ...]
_WIDE = Context(prec=80, rounding=ROUND_HALF_UP)
"""For decimals, which have up to 38 digits: sums are exact, and averages are rounded once."""


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


def _less(one: Any, other: Any) -> bool:  # noqa: ANN401
    if isinstance(one, float | dict | list | tuple):
        return bool(_rank(one) < _rank(other))
    return bool(one < other)


def _rank(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """A value in the order of its type."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value)
    if isinstance(value, dict):
        return (1, tuple(map(_rank, value.values())))
    return (1, tuple(map(_rank, value)) if isinstance(value, list | tuple) else value)


def _more(one: Any, other: Any) -> bool:  # noqa: ANN401
    return _less(other, one)


def _total(one: Any, other: Any) -> Any:  # noqa: ANN401
    if one is None or other is None:
        return one if other is None else other
    return _WIDE.add(one, other) if isinstance(one, Decimal) else one + other


def _mean(total: Any, count: int) -> Any:  # noqa: ANN401
    if not count:
        return None
    return _WIDE.divide(total, Decimal(count)) if isinstance(total, Decimal) else total / count


_SUM = Function(begin=_nothing, add=lambda kept, values: _total(kept, values[0]), merge=_total, result=_same)
_AVERAGE = Function(
    begin=lambda: (None, 0),
    add=lambda kept, values: kept if values[0] is None else (_total(kept[0], values[0]), kept[1] + 1),
    merge=lambda one, other: (_total(one[0], other[0]), one[1] + other[1]),
    result=lambda kept: _mean(*kept),
)


def _list(*, nulls: bool) -> Function:
    def add(kept: list[Any], values: Arguments) -> list[Any]:
        if nulls or values[0] is not None:
            kept.append(values[0])
        return kept

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        one.extend(other)
        return one

    return Function(begin=list, add=add, merge=merge, result=list)


def _distinct(result: Callable[[Iterable[Arguments]], Any], *, nulls: bool = True) -> Function:
    """Over the arguments that differ, in the order in which they came."""

    def add(kept: dict[Any, Arguments], values: Arguments) -> dict[Any, Arguments]:
        if nulls or None not in values:
            kept.setdefault(identity(values), values)
        return kept

    def merge(one: dict[Any, Arguments], other: dict[Any, Arguments]) -> dict[Any, Arguments]:
        for same, values in other.items():
            one.setdefault(same, values)
        return one

    return Function(begin=dict, add=add, merge=merge, result=lambda kept: result(kept.values()))


def _of_distinct(function: Function) -> Function:
    return _distinct(lambda rows: function.result(functools.reduce(function.add, rows, function.begin())))


def _firsts(rows: Iterable[Arguments]) -> list[Any]:
    return [values[0] for values in rows]


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


def _where(function: Function, is_wanted: Callable[[Arguments], bool], arguments: int | None) -> Function:
    """The function over the wanted rows only. `arguments`: how many arguments it receives, from the first on."""
    return Function(
        begin=function.begin,
        add=lambda kept, values: function.add(kept, values[:arguments]) if is_wanted(values) else kept,
        merge=function.merge,
        result=function.result,
    )


def _skipping_nulls(function: Function) -> Function:
    return _where(function, lambda values: values[0] is not None, None)


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
    "collect_list": _list(nulls=False),
    "collect_list with nulls": _list(nulls=True),
    "collect_set": _distinct(_firsts, nulls=False),
    "collect_set with nulls": _distinct(_firsts),
    "first": _FIRST,
    "first skipping nulls": _skipping_nulls(_FIRST),
    "last": _LAST,
    "last skipping nulls": _skipping_nulls(_LAST),
    "bool_and": Function(_nothing, lambda kept, values: _every(kept, values[0]), _every, _same),
    "bool_or": Function(_nothing, lambda kept, values: _some(kept, values[0]), _some, _same),
    "var_samp": _moments(_sample),
    "var_pop": _moments(_population),
    "stddev_samp": _moments(_root(_sample)),
    "stddev_pop": _moments(_root(_population)),
}
"""By Spark's names. One that is not here is left to Spark's own aggregation."""


@functools.cache
def function_of(name: str) -> Function:
    """Also of `<name> distinct`, and of `<name> where`, whose last argument says whether the row is wanted."""
    if (of := name.removesuffix(" where")) != name:
        return _where(function_of(of), lambda values: values[-1] is True, -1)
    if (of := name.removesuffix(" distinct")) != name:
        return _of_distinct(function_of(of))
    return FUNCTIONS[name]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Several functions at once. `columns`: the arguments of each, as indices into the values of a row.

    `scales`: of each result that is a decimal, how many digits its type has after the point.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    scales: tuple[int | None, ...] = ()

    def begin(self) -> list[Kept]:
        return [function_of(name).begin() for name in self.names]

    def add(self, kept: list[Kept], values: Sequence[Any]) -> None:
        for index, (name, columns) in enumerate(zip(self.names, self.columns, strict=True)):
            kept[index] = function_of(name).add(kept[index], tuple(values[column] for column in columns))

    def merge(self, one: list[Kept], other: list[Kept]) -> list[Kept]:
        return [function_of(name).merge(a, b) for name, a, b in zip(self.names, one, other, strict=True)]

    def results(self, kept: list[Kept]) -> tuple[Any, ...]:
        made = (function_of(name).result(each) for name, each in zip(self.names, kept, strict=True))
        return tuple(map(_scaled, made, self.scales)) if self.scales else tuple(made)


def _scaled(value: Any, scale: int | None) -> Any:  # noqa: ANN401
    if scale is None or not isinstance(value, Decimal):
        return value
    return value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
