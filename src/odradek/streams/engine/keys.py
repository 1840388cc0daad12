"""Keys as bytes: equal keys give equal bytes, in every process and for ever."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

Key = tuple[Any, ...]
_PLAIN = frozenset({str, int, bytes, bool, type(None)})
_WITHOUT_REFERENCES = 2
"""The version of marshal's format that writes equal values alike: later ones refer back to equal objects."""
_ALL_DIGITS = Context(prec=38)  # as many as a decimal has; Python's own context rounds to 28


def key_bytes(key: Key) -> bytes:
    if not all(type(part) in _PLAIN for part in key):
        key = tuple(map(_plain, key))
    return marshal.dumps(key, _WITHOUT_REFERENCES)


def identity(values: Key) -> Key | bytes:
    """A hashable key for dicts and sets of values with the same column types; smaller and faster than bytes."""
    return values if all(type(part) in _PLAIN for part in values) else key_bytes(values)


def _plain(part: Any) -> Any:  # noqa: ANN401 a value of any column
    if type(part) in _PLAIN:
        return part
    if isinstance(part, float):
        return ("f", "nan" if part != part else repr(part + 0.0))
    if isinstance(part, datetime):
        return ("t", (part if part.tzinfo else part.replace(tzinfo=UTC)).astimezone(UTC).isoformat())
    if isinstance(part, date):
        return ("d", part.isoformat())
    if isinstance(part, timedelta):
        return ("i", part // timedelta(microseconds=1))
    if isinstance(part, Decimal):
        return ("n", str(part.normalize(_ALL_DIGITS)))
    if isinstance(part, Mapping):
        return ("m", tuple((_plain(name), _plain(value)) for name, value in part.items()))
    if isinstance(part, list | tuple):
        return ("l", tuple(map(_plain, part)))
    raise TypeError(f"{part!r} cannot be part of a key")
