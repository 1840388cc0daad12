"""What the clients of a run saw, and when the node restarted: the evidence for the checkers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Violation(Exception):
    """A promise was broken. The first word names it: J1, L2, …"""


class Sighting(NamedTuple):
    """One incarnation of the node reported to a client that this value has this offset."""

    incarnation: int
    offset: int
    value: bytes
    # True when it was the acknowledgement of a write, False when it was read.
    acked: bool


Place = tuple[str, int]


@dataclass(slots=True)
class History:
    # Every value ever sent, and where: every value that is read must be in here. Values are unique in a run.
    sent: dict[bytes, Place] = field(default_factory=dict)
    # Written by idempotent producers: these must appear once.
    once: dict[bytes, None] = field(default_factory=dict)
    sightings: dict[Place, list[Sighting]] = field(default_factory=dict)
    # Where each partition ended when an incarnation had recovered its logs. A partition left out had no log.
    ends_at_start: dict[int, dict[Place, int]] = field(default_factory=dict)
    # Below this nothing is promised any more: it was deleted, or a client asked to delete it.
    deleted_below: dict[Place, int] = field(default_factory=dict)
    producer_ids: dict[int, str] = field(default_factory=dict)
    # Answers to readers that their position does not exist: place, position, earliest, latest.
    jumps: list[tuple[Place, int, int, int]] = field(default_factory=list)
    acked_records: int = 0
    polled_records: int = 0
    # Of these, read from a follower.
    polled_nearby: int = 0

    def sends(self, place: Place, values: Sequence[bytes], *, once: bool) -> None:
        for value in values:
            self.sent[value] = place
            if once:
                self.once[value] = None

    def acknowledged(self, incarnation: int, place: Place, base_offset: int, values: Sequence[bytes]) -> None:
        seen = self.sightings.setdefault(place, [])
        for delta, value in enumerate(values):
            seen.append(Sighting(incarnation, base_offset + delta, value, acked=True))
        self.acked_records += len(values)

    def polled(self, incarnation: int, place: Place, records: Sequence[tuple[int, bytes]]) -> None:
        seen = self.sightings.setdefault(place, [])
        for offset, value in records:
            if self.sent.get(value) != place:
                raise Violation(f"J5 {value!r} was read from {place} and never sent there")
            seen.append(Sighting(incarnation, offset, value, acked=False))
        self.polled_records += len(records)

    def given_producer_id(self, producer_id: int, to: str) -> None:
        if producer_id in self.producer_ids:
            raise Violation(f"P3 producer id {producer_id} of {self.producer_ids[producer_id]} was given to {to} too")
        self.producer_ids[producer_id] = to

    def deletes_below(self, place: Place, offset: int) -> None:
        self.deleted_below[place] = max(offset, self.deleted_below.get(place, 0))

    def jumped(self, place: Place, position: int, earliest: int, latest: int) -> None:
        self.jumps.append((place, position, earliest, latest))
