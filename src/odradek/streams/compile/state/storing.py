"""Values on their way into state: what has not the type of its place is refused.

Spark itself would store null there without a word: for text in the place of a number, and for 3 in that of a double.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

from pyspark.sql import types as T

Storer = Callable[[Any], Any]

BITS: Mapping[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
CLASSES: Mapping[type[T.DataType], type | tuple[type, ...]] = {
    T.BooleanType: bool,
    T.StringType: str,
    T.BinaryType: (bytes, bytearray),
    T.DateType: date,
    T.TimestampType: datetime,
    T.TimestampNTZType: datetime,
    T.DayTimeIntervalType: timedelta,
}


def storer(kind: T.DataType, place: str) -> Storer:
    """From a value without classes (`plain`) to what is stored as this type. `place` names it in the TypeError."""
    convert = _converter(kind, place)

    def store(value: Any) -> Any:  # noqa: ANN401
        try:
            return None if value is None else convert(value)
        except _Misfit:
            told = f"{place}: {reprlib.repr(value)} is no {kind.simpleString()}"
            raise TypeError(told) from None

    return store


class _Misfit(Exception):
    """This very value, not one inside it."""


def _converter(kind: T.DataType, place: str) -> Storer:
    if isinstance(kind, T.StructType):
        fields = {f.name: storer(f.dataType, f"{place}.{f.name}") for f in kind}
        return lambda value: {name: store(one) for (name, store), one in _paired(fields, value)}
    if isinstance(kind, T.ArrayType):
        element = storer(kind.elementType, f"{place}[]")
        return lambda value: [element(one) for one in _of(list, value)]
    if isinstance(kind, T.MapType):
        key, item = storer(kind.keyType, f"{place} (key)"), storer(kind.valueType, f"{place}{{}}")
        return lambda value: {key(k): item(one) for k, one in _of(dict, value).items()}
    if isinstance(kind, T.IntegralType):
        return _whole(BITS[type(kind)])
    if isinstance(kind, T.FractionalType):
        return _decimal if isinstance(kind, T.DecimalType) else _float
    wanted = CLASSES.get(type(kind), object)
    return lambda value: _of(wanted, value)


def _of(wanted: type | tuple[type, ...], value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, wanted):
        raise _Misfit
    return value


def _paired(fields: Mapping[str, Storer], value: Any) -> Any:  # noqa: ANN401
    """Each field with what a dict has for it, or a list in its place."""
    if isinstance(value, Sequence) and len(value) == len(fields):
        return zip(fields.items(), value, strict=True)
    found = _of(dict, value)
    return [(field, found.get(field[0])) for field in fields.items()]


def _whole(bits: int) -> Storer:
    least = -(1 << (bits - 1))

    def convert(value: Any) -> int:  # noqa: ANN401
        try:
            number = int(operator.index(value))
        except TypeError:
            raise _Misfit from None
        if not least <= number < -least:
            raise _Misfit
        return number

    return convert


def _float(value: Any) -> float:  # noqa: ANN401
    return float(_of(Real, value))


def _decimal(value: Any) -> Decimal:  # noqa: ANN401
    return Decimal(_of((Decimal, int), value))
