"""Streams applications at one moment. Immutable: any thread may read it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odradek.console.collecting.snapshot import Snapshot
from odradek.monitor.lag.evaluation import Status
from odradek.pipeline.announcement import SILENT_S, About, Announced
from odradek.pipeline.picture import Picture
from odradek.pipeline.query_record import QueryRecord

PART = "streams"
CAUSE_CHARS_MAX = 300


class State(StrEnum):
    FAILED = "failed"
    SILENT = "silent"
    BEHIND = "cannot keep up"
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"


TONES = {State.FAILED: "bad", State.SILENT: "bad", State.BEHIND: "warn", State.STARTING: "info", State.RUNNING: "good"}
_SEVERITY = {State.FAILED: 5, State.SILENT: 4, State.BEHIND: 3, State.STARTING: 2, State.RUNNING: 1, State.STOPPED: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    record: QueryRecord
    about: About
    # As its group has them; None before its first commit.
    lag: int | None = None
    seconds_behind: float = 0.0
    rule: Status = Status.OK

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def guarantee(self) -> str:
        """The weakest of its sinks."""
        told = sorted(self.about.guarantees.values(), key=lambda text: text.startswith("exactly once"))
        return told[0] if told else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    topic: str
    count: int | None  # None if the topic does not exist yet
    is_exact: bool = True  # otherwise `count` is an upper bound: it includes offsets whose records are not counted
    new: int = 0  # in the last minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    announced: Announced
    queries: tuple[Query, ...]
    letters: tuple[Letters, ...] = ()
    picture: Picture | None = None
    silent_s: float = 0.0  # since its last sign of life

    @property
    def name(self) -> str:
        return self.announced.application

    @property
    def state(self) -> State:
        states = {query.record.state for query in self.queries}
        if "failed" in states:
            return State.FAILED
        if self.announced.is_over:
            return State.STOPPED
        if self.silent_s > SILENT_S:
            return State.SILENT
        if any(query.record.warning for query in self.queries):
            return State.BEHIND
        return State.STARTING if "starting" in states or not states else State.RUNNING

    @property
    def severity(self) -> int:
        return _SEVERITY[self.state]

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "")

    @property
    def is_running(self) -> bool:
        return self.state in (State.BEHIND, State.STARTING, State.RUNNING)

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(query.about.group for query in self.queries)

    @property
    def lag(self) -> int | None:
        known = [query.lag for query in self.queries if query.lag is not None]
        return sum(known) if known else None

    @property
    def seconds_behind(self) -> float:
        return max((query.seconds_behind for query in self.queries), default=0.0)

    @property
    def in_per_s(self) -> float | None:
        """Records that arrive, of all queries. A query that waits has nothing to read."""
        if not self.is_running:
            return None
        known = [
            query.record.input_rows_per_s if query.record.state == "working" else 0.0
            for query in self.queries
            if query.record.input_rows_per_s is not None
        ]
        return sum(known) if known else None

    @property
    def state_bytes(self) -> int | None:
        known = [query.record.state_bytes for query in self.queries if query.record.state_bytes is not None]
        return sum(known) if known else None

    @property
    def late_rows(self) -> int | None:
        known = [query.record.late_rows for query in self.queries if query.record.late_rows is not None]
        return sum(known) if known else None

    @property
    def dead_letters(self) -> int | None:
        known = [each.count for each in self.letters if each.count is not None]
        return sum(known) if known else None

    @property
    def letters_topic(self) -> str:
        """Where to look for dead letters: the topic with most of them. Empty if there are none."""
        most = max(self.letters, key=lambda each: each.count or 0, default=None)
        return most.topic if most is not None and most.count else ""

    @property
    def letters_are_counted(self) -> bool:
        """Otherwise `dead_letters` is an upper bound."""
        return all(each.is_exact for each in self.letters)

    @property
    def error(self) -> str:
        return next((query.record.error for query in self.queries if query.record.error), "")

    @property
    def cause(self) -> str:
        """The first line of the error."""
        told = next((line.strip() for line in self.error.splitlines() if line.strip()), "")
        return told if len(told) <= CAUSE_CHARS_MAX else told[: CAUSE_CHARS_MAX - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applications:
    known: tuple[Application, ...] = ()
    unreadable: int = 0  # records of the topic that are no announcements

    def named(self, name: str) -> Application | None:
        return next((each for each in self.known if each.name == name), None)


def applications_of(snapshot: Snapshot) -> Applications | None:
    """None if no application has told the cluster about itself."""
    found = snapshot.parts.get(PART)
    return found if isinstance(found, Applications) else None
