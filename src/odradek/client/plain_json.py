"""Dataclasses to what JSON can say, and back: nested ones, lists, dicts, optional fields, enums, times.

Fields that the class does not know are passed over, so that writers may add some; a missing one needs a default.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: object) -> Any:  # noqa: ANN401, as various as JSON
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return value


def from_plain(type_: type[T], plain: object) -> T:
    """ValueError says which field does not fit, and why."""
    made: T = _made(type_, plain, type_.__name__)
    return made


def _made(wanted: Any, plain: Any, where: str) -> Any:  # noqa: ANN401
    origin, arguments = get_origin(wanted), get_args(wanted)
    if wanted is Any or wanted is object:
        return plain
    if origin in (Union, types.UnionType):
        return _one_of(arguments, plain, where)
    if origin in (list, tuple):
        return origin(_items(origin, arguments, _expect(list, plain, where), where))
    if origin is dict:
        return {
            key: _made(arguments[1], item, f"{where}[{key!r}]") for key, item in _expect(dict, plain, where).items()
        }
    if dataclasses.is_dataclass(wanted):
        return _object(wanted, _expect(dict, plain, where), where)
    if wanted in _FROM_TEXT or (isinstance(wanted, type) and issubclass(wanted, Enum)):
        return _parsed(wanted, plain, where)
    if wanted is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    return _expect(origin or wanted, plain, where)


_FROM_TEXT: dict[type, Callable[[Any], Any]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    Decimal: Decimal,
}


def _items(origin: type, kinds: tuple[Any, ...], items: list[Any], where: str) -> list[Any]:
    """Those of a tuple have a type each, unless it says `tuple[int, ...]`."""
    if origin is list or kinds[-1:] == (...,):
        kinds = kinds[:1] * len(items)
    if len(kinds) != len(items):
        raise ValueError(f"{where} has {len(items)} items, not {len(kinds)}")
    return [_made(kinds[index], item, f"{where}[{index}]") for index, item in enumerate(items)]


def _object(class_: Any, plain: dict[str, Any], where: str) -> Any:  # noqa: ANN401
    hints = _hints(class_)
    given = {}
    for field in dataclasses.fields(class_):
        if field.name in plain:
            given[field.name] = _made(hints[field.name], plain[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{where} lacks the field {field.name!r}")
    return class_(**given)


@lru_cache(maxsize=256)
def _hints(class_: type) -> dict[str, Any]:
    return get_type_hints(class_)


def _one_of(choices: tuple[Any, ...], plain: Any, where: str) -> Any:  # noqa: ANN401
    if plain is None and type(None) in choices:
        return None
    problems = []
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _made(choice, plain, where)
        except ValueError as unfit:
            problems.append(str(unfit))
    raise ValueError("; ".join(problems))


def _parsed(wanted: Any, plain: Any, where: str) -> Any:  # noqa: ANN401
    try:
        return _FROM_TEXT.get(wanted, wanted)(plain)
    except (ValueError, TypeError, ArithmeticError):
        raise ValueError(f"{where} is {plain!r}, which is no {wanted.__name__}") from None


def _expect(wanted: Any, plain: Any, where: str) -> Any:  # noqa: ANN401
    if not isinstance(plain, wanted) or (isinstance(plain, bool) and wanted is not bool):
        raise ValueError(f"{where} is {plain!r}, not {wanted.__name__}")
    return plain
