"""Connectors at one moment. Immutable: any thread may read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.console.collecting.snapshot import Snapshot
from odradek.monitor.lag.evaluation import Status

PART = "connect"

RUNNING, FAILED, RESTARTING, UNASSIGNED = "RUNNING", "FAILED", "RESTARTING", "UNASSIGNED"
AT_REST = ("PAUSED", "STOPPED")
TONES = {RUNNING: "good", FAILED: "bad", RESTARTING: "warn", UNASSIGNED: "warn"}
CAUSE_CHARS_MAX = 300
_FRAME = "  File "
_MODULES = re.compile(r"^(?:[A-Za-z_][\w$]*\.)+(?=[A-Z][\w$]*(?::|$))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a task has done since its service became active, and per second in the last half minute."""

    read: float = 0.0  # records from the source, or from the topics of a sink
    read_per_s: float = 0.0
    written: float = 0.0
    written_per_s: float = 0.0
    skipped: float = 0.0
    dead_letters: float = 0.0
    failures: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    number: int
    state: str
    worker: str
    trace: str = ""
    figures: Figures | None = None  # None: the service does not report them


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    service: str  # the key of its service
    name: str
    kind: str  # source, sink or unknown
    plugin: str  # as in the config
    state: str
    worker: str
    trace: str = ""
    config: Mapping[str, str] = field(default_factory=dict)  # secrets are masked
    tasks: tuple[Task, ...] = ()
    # For a sink, from its group: records behind, seconds behind, and the group's rule.
    lag: int | None = None
    seconds_behind: float = 0.0
    rule: Status = Status.OK
    newly_skipped: float = 0.0  # records that were skipped, or became dead letters, in the last minutes
    # A failure some seconds ago, although all tasks run now: a task that always fails runs between its restarts.
    recent_trace: str = ""

    @property
    def short_plugin(self) -> str:
        return self.plugin.rpartition(".")[2]

    @property
    def group(self) -> str:
        """The group of a sink, unless its config names another one."""
        return self.config.get("consumer.override.group.id") or f"connect-{self.name}"

    @property
    def dead_letter_topic(self) -> str:
        return self.config.get("errors.deadletterqueue.topic.name", "")

    @property
    def failed(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.state == FAILED)

    @property
    def restarting(self) -> tuple[Task, ...]:
        """Those that failed, and will be started again."""
        return tuple(task for task in self.tasks if task.state == RESTARTING and task.trace)

    @property
    def is_restarting(self) -> bool:
        return self.state == RUNNING and bool(self.restarting or self.recent_trace)

    @property
    def is_unwell(self) -> bool:
        return self.state == FAILED or bool(self.failed) or self.is_restarting

    @property
    def shown_state(self) -> str:
        """The worst of the connector and its tasks."""
        if self.state == FAILED or self.failed:
            return FAILED
        return RESTARTING if self.is_restarting else self.state

    @property
    def tone(self) -> str:
        return TONES.get(self.shown_state, "")

    @property
    def figures(self) -> Figures | None:
        """The sum of all tasks; None if the service does not report them."""
        known = [task.figures for task in self.tasks if task.figures is not None]
        if not known:
            return None
        return Figures(
            read=sum(each.read for each in known),
            read_per_s=sum(each.read_per_s for each in known),
            written=sum(each.written for each in known),
            written_per_s=sum(each.written_per_s for each in known),
            skipped=sum(each.skipped for each in known),
            dead_letters=sum(each.dead_letters for each in known),
            failures=sum(each.failures for each in known),
        )

    @property
    def cause(self) -> str:
        """Why it failed, in one line."""
        traces = [self.trace, *(task.trace for task in (*self.failed, *self.restarting)), self.recent_trace]
        return next((cause_of(trace) for trace in traces if trace), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    key: str
    url: str
    is_default: bool
    version: str = ""
    problem: str = ""  # why it gives no answer; its connectors are then those of its last answer
    is_odradek: bool = False  # it has metrics and logs at the same address


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """All connectors of the cluster that the console knows of."""

    services: tuple[Service, ...] = ()
    connectors: tuple[Connector, ...] = ()

    def service(self, key: str) -> Service | None:
        return next((each for each in self.services if each.key == key), None)

    def connector(self, service: str, name: str) -> Connector | None:
        return next((each for each in self.connectors if (each.service, each.name) == (service, name)), None)


def connect_of(snapshot: Snapshot) -> Connect | None:
    """None if the console knows of no connect service."""
    found = snapshot.parts.get(PART)
    return found if isinstance(found, Connect) else None


def cause_of(trace: str) -> str:
    """The exception of a trace of Python or Java, without its module: where the reader looks first."""
    lines = [line for line in trace.splitlines() if line.strip()]
    if not lines:
        return ""
    found = lines[0]
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    if frames:
        found = next((line for line in lines[frames[-1] :] if not line.startswith(" ")), lines[-1])
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes:
        found = causes[-1]
    told = _MODULES.sub("", found.strip())
    return told if len(told) <= CAUSE_CHARS_MAX else told[: CAUSE_CHARS_MAX - 1] + "…"
