"""Keys as bytes: equal keys give equal bytes, in every process and for ever."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Key = tuple[Any, ...]
_PLAIN = frozenset({str, int, bytes, bool, type(None)})
_WITHOUT_REFERENCES = 2
"""The version of marshal's format that writes equal values alike: later ones refer back to equal objects."""


def key_bytes(key: Key) -> bytes:
    if not all(type(part) in _PLAIN for part in key):
        key = tuple(map(_plain, key))
    return marshal.dumps(key, _WITHOUT_REFERENCES)


def _plain(part: Any) -> Any:  # noqa: ANN401 a value of any column
    if type(part) in _PLAIN:
        return part
    if isinstance(part, float):
        return ("f", "nan" if part != part else repr(part + 0.0))
    if isinstance(part, datetime):
        return ("t", (part if part.tzinfo else part.replace(tzinfo=UTC)).astimezone(UTC).isoformat())
    if isinstance(part, date):
        return ("d", part.isoformat())
    if isinstance(part, Decimal):
        return ("n", str(part.normalize()))
    if isinstance(part, Mapping):
        return ("m", tuple((_plain(name), _plain(value)) for name, value in part.items()))
    if isinstance(part, list | tuple):
        return ("l", tuple(map(_plain, part)))
    raise TypeError(f"{part!r} cannot be part of a key")
