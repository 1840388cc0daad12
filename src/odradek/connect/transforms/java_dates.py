"""Dates as text in the patterns of Java's SimpleDateFormat, in UTC and English. Numbers out of range carry over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_NUMBERS = frozenset("yuMdHkKhmsSD")
_LETTERS = _NUMBERS | frozenset("EaXZzG")


@dataclass(frozen=True, slots=True)
class _Part:
    """A letter with how often it stands there, or a text."""

    letter: str
    count: int
    text: str = ""

    @property
    def is_number(self) -> bool:
        return self.letter in _NUMBERS and not (self.letter == "M" and self.count > 2)


def is_date_format(text: str) -> str | None:
    """What is wrong with a pattern, as a check of an option."""
    try:
        DateFormat(text)
    except ValueError as wrong:
        return f"is refused: {wrong}"
    return None


class DateFormat:
    """Prints and reads moments. Letters: G y u M d D E a H k K h m s S z Z X."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))

    def text(self, moment: datetime) -> str:
        at = moment.astimezone(UTC)
        return "".join(part.text if not part.letter else _shown(part, at) for part in self._parts)

    def moment(self, text: str) -> datetime:
        """Raises ValueError. Text after the end of the pattern is ignored, as in Java."""
        found: dict[str, int] = {}
        at = 0
        for index, part in enumerate(self._parts):
            if not part.letter:
                if not text.startswith(part.text, at):
                    raise self._mismatch(text)
                at += len(part.text)
                continue
            following = self._parts[index + 1] if index + 1 < len(self._parts) else None
            abuts = following is not None and bool(following.letter) and following.is_number
            at = self._read(text, at, part, found, abuts=abuts)
        return _moment(found)

    def _mismatch(self, text: str) -> ValueError:
        return ValueError(f"{text!r} does not match the pattern {self.pattern!r}")

    def _read(self, text: str, at: int, part: _Part, found: dict[str, int], *, abuts: bool) -> int:
        if part.is_number:
            # Numbers that follow each other without a separator have the width of the pattern.
            match = re.compile(rf"\s*(-?\d{{1,{part.count if abuts else 19}}})").match(text, at)
            if match is None:
                raise self._mismatch(text)
            number = int(match[1])
            found[part.letter] = (
                _century(number) if part.letter == "y" and part.count <= 2 and len(match[1]) == 2 else number
            )
            return match.end()
        if part.letter in "XZz":
            match = re.compile(r"Z|(?:GMT|UTC)?([+-])(\d\d?):?(\d\d)?|GMT|UTC").match(text, at)
            if match is None:
                raise self._mismatch(text)
            minutes = int(match[2] or 0) * 60 + int(match[3] or 0)
            found["zone"] = -minutes if match[1] == "-" else minutes
            return match.end()
        names = {"M": MONTHS, "E": DAYS, "a": ["AM", "PM"], "G": ["AD", "BC"]}[part.letter]
        for number, name in enumerate(names):
            for spelled in (name, name[:3]):
                if text[at : at + len(spelled)].lower() == spelled.lower():
                    found[part.letter] = number + 1 if part.letter == "M" else number
                    return at + len(spelled)
        raise self._mismatch(text)


def _parts(pattern: str) -> list[_Part]:
    parts, at = [], 0
    while at < len(pattern):
        match = _PART.match(pattern, at)
        if match is None:
            raise ValueError(f"the date pattern {pattern!r} has a quote without its partner")
        if match[2] is not None:
            if match[2] not in _LETTERS:
                raise ValueError(f"the date pattern {pattern!r} has the letter {match[2]!r}, which is not supported")
            parts.append(_Part(match[2], len(match[0])))
        else:
            quoted = match[1]
            parts.append(_Part("", 0, match[0] if quoted is None else quoted.replace("''", "'") or "'"))
        at = match.end()
    return parts


def _shown(part: _Part, at: datetime) -> str:
    count = part.count
    match part.letter:
        case "y" if count == 2:
            return f"{at.year % 100:02}"
        case "M" if count > 2:
            name = MONTHS[at.month - 1]
            return name if count > 3 else name[:3]
        case "E":
            name = DAYS[at.weekday()]
            return name if count > 3 else name[:3]
        case "X":
            return "Z"
        case "Z":
            return "+0000"
        case "z":
            return "Coordinated Universal Time" if count > 3 else "UTC"
        case "a":
            return "AM" if at.hour < 12 else "PM"
        case "G":
            return "AD"
    return str(_number(part.letter, at)).zfill(count)


def _number(letter: str, at: datetime) -> int:
    return {
        "y": at.year,
        "u": at.isoweekday(),
        "M": at.month,
        "d": at.day,
        "D": at.timetuple().tm_yday,
        "H": at.hour,
        "k": at.hour or 24,
        "K": at.hour % 12,
        "h": at.hour % 12 or 12,
        "m": at.minute,
        "s": at.second,
        "S": at.microsecond // 1000,
    }[letter]


def _century(number: int) -> int:
    """Two digits are a year between 80 years ago and 20 years from now."""
    latest = datetime.now(UTC).year + 20
    year = latest - latest % 100 + number
    return year if year <= latest else year - 100


def _moment(found: dict[str, int]) -> datetime:
    months = found.get("y", 1970) * 12 + found.get("M", 1) - 1
    first = datetime(months // 12, months % 12 + 1, 1, tzinfo=timezone(timedelta(minutes=found.get("zone", 0))))
    days = found["D"] - 1 + (0 if months % 12 == 0 else 1 - first.timetuple().tm_yday) if "D" in found else 0
    hours = found.get("H", found["k"] % 24 if "k" in found else 0)
    if "h" in found or "K" in found:
        hours = found.get("K", found.get("h", 0) % 12) + 12 * found.get("a", 0)
    try:
        return (
            first
            + timedelta(
                days=days + found.get("d", 1) - 1,
                hours=hours,
                minutes=found.get("m", 0),
                seconds=found.get("s", 0),
                milliseconds=found.get("S", 0),
            )
        ).astimezone(UTC)
    except OverflowError:
        raise ValueError("the date is not in the years 1 to 9999") from None
