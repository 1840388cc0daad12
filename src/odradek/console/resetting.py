"""Where the committed offsets of a group would go. Pure functions of offsets that were read before."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

Place = tuple[str, int]

CHOICES = ("earliest", "latest", "time", "offset", "shift", "group")
OFFSET_MAX = 2**63 - 1


class BadTarget(Exception):
    """What a user typed names no offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Offsets of the partitions to reset. `elsewhere`: the other group's, or those at the given time."""

    committed: Mapping[Place, int]
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    elsewhere: Mapping[Place, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    topic: str
    partition: int
    was: int | None
    now: int
    end: int
    note: str = ""

    @property
    def delta(self) -> int | None:
        return None if self.was is None else self.now - self.was


def moves(places: Sequence[Place], to: str, value: str, offsets: Offsets) -> list[Move]:
    """Raises BadTarget."""
    return [_move(place, to, value, offsets) for place in sorted(places) if place in offsets.ends]


def _move(place: Place, to: str, value: str, offsets: Offsets) -> Move:
    was, start, end = offsets.committed.get(place), offsets.starts.get(place, 0), offsets.ends[place]
    wanted, note = _wanted(place, to, value, offsets, start, end)
    now = max(start, min(wanted, end))
    if wanted > end:
        note = f"{wanted:,} is beyond the log end"
    elif wanted < start:
        note = f"{wanted:,} was deleted already"
    return Move(topic=place[0], partition=place[1], was=was, now=now, end=end, note=note)


def _wanted(place: Place, to: str, value: str, offsets: Offsets, start: int, end: int) -> tuple[int, str]:
    if to == "earliest":
        return start, ""
    if to == "latest":
        return end, ""
    if to == "offset":
        return whole(value), ""
    if to == "shift":
        return offsets.committed.get(place, start) + whole(value), ""
    found = offsets.elsewhere.get(place)
    if to == "time":
        return (end, "no record is that new") if found is None or found < 0 else (found, "")
    if to == "group":
        was = offsets.committed.get(place, start)
        return (was, "the other group has not committed here") if found is None else (found, "")
    raise BadTarget(f"{to!r} is none of {', '.join(CHOICES)}")


def whole(text: str) -> int:
    found = text.strip().replace(",", "").replace("_", "")
    if not re.fullmatch(r"[+-]?\d{1,19}", found, re.ASCII) or abs(int(found)) > OFFSET_MAX:
        raise BadTarget(f"{text!r} is not a whole number")
    return int(found)


def moment_ms(text: str) -> int:
    """The timestamp of a time as browsers send it: 2026-11-19T04:00, in UTC unless it names a zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTarget(f"{text!r} is not a time such as 2026-11-19T04:00") from None
    moment = int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    if moment < 0:  # to brokers -1 and -2 are the ends of a log
        raise BadTarget(f"{text!r} is before 1970")
    return moment


def as_field(found: Sequence[Move]) -> str:
    """For the form that applies a preview: exactly these offsets are set."""
    return json.dumps([[each.topic, each.partition, each.now] for each in found], separators=(",", ":"))


def from_field(text: str) -> dict[Place, int]:
    """Raises BadTarget."""
    try:
        rows = json.loads(text)
        found = {(str(topic), int(partition)): int(offset) for topic, partition, offset in rows}
    except (ValueError, TypeError, OverflowError, RecursionError) as wrong:
        raise BadTarget(f"the form is incomplete: {wrong}") from None
    if not found or any(partition < 0 or not 0 <= offset <= OFFSET_MAX for (_, partition), offset in found.items()):
        raise BadTarget("the form is incomplete")
    return found
