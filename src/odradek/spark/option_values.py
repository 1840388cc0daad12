"""Values of options: text in, a value or a ValueError that says what was expected out."""

from __future__ import annotations

import re

UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def positive(text: str) -> int | None:
    number = int(text)
    if number <= 0:
        raise ValueError(f"must be positive, not {number}")
    return number


def count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"must be at least 1, not {number}")
    return number


def rank(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise ValueError(f"must be from 0 to 65535, not {number}")
    return number


def milliseconds(text: str) -> float:
    number = int(text)
    if number < 0:
        raise ValueError(f"must not be negative, not {number}")
    return number / 1000


def cache_ttl(text: str) -> float:
    number = int(text)
    if number != -1 and number <= 0:
        raise ValueError(f"must be a positive number of milliseconds, or -1 for no caching, not {number}")
    return max(0.0, number / 1000)


def topics(text: str) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"true or false, not {text}")
    return text.lower() == "true"


def strategy(text: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise ValueError(f"error or latest, not {text}")
    return text.lower() == "latest"


def duration_s(text: str) -> float:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if found is None or (found[2] or "ms") not in UNITS_MS:
        raise ValueError(f"a number with one of the units {', '.join(UNITS_MS)}, such as 15m, not {text}")
    return int(found[1]) * UNITS_MS[found[2] or "ms"] / 1000
