"""Times in filters and in the toolbar: ISO dates in UTC, milliseconds, or a time ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_UNITS = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1),
          "h": timedelta(hours=1), "d": timedelta(days=1)}  # fmt: skip
FORMS = 'a time such as "2026-11-19T10:00" (UTC), "-15m" or milliseconds'


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raises ValueError, also for times before: to brokers -1 and -2 are not times."""
    found = _moment_ms(text.strip(), now_ms)
    if found < 0:
        raise ValueError(f"{text[:40]!r} is before 1970")
    return found


def _moment_ms(text: str, now_ms: int) -> int:
    ago = _AGO.fullmatch(text)
    if ago:
        return now_ms - int(ago[1]) * _UNITS[ago[2]] // _UNITS["ms"]
    if re.fullmatch(r"\d{1,15}", text) and len(text) > 4:
        return int(text)
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
