"""Lengths of time as people write them: "5 seconds", "10m", "1 hour 30 minutes", a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

Duration = str | timedelta

_UNITS = {
    "us": ("us", "microsecond", "microseconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_LENGTHS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_UNIT_OF = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")


def duration(value: Duration) -> timedelta:
    """A fixed length of time. Months and years are refused, because their length varies."""
    if isinstance(value, timedelta):
        return _not_negative(value)
    text = value.strip().lower()
    total, position = timedelta(), 0
    while part := _PART.match(text, position):
        unit = _UNIT_OF.get(part[2])
        if unit is None:
            break
        total += float(part[1]) * _LENGTHS[unit]
        position = part.end()
    if not text or position != len(text):
        raise ValueError(
            f"{value!r} is not a length of time: write '500 ms', '5 seconds', '3 minutes', '1 hour', '7 days'"
        )
    return total


def interval(length: timedelta) -> str:
    """The same length as a Spark interval."""
    return f"{length // timedelta(microseconds=1)} microseconds"


def spoken(length: timedelta) -> str:
    """In the largest unit that leaves a whole number: 3 minutes, 90 seconds."""
    for unit in ("w", "d", "h", "m", "s", "ms"):
        count, rest = divmod(length, _LENGTHS[unit])
        if count and not rest:
            return f"{count} {_UNITS[unit][-2 if count == 1 else -1]}"
    return f"{length // timedelta(microseconds=1)} microseconds" if length else "0 seconds"


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise ValueError(f"{value} is negative; a length of time must be zero or more")
    return value
