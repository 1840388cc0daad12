"""Which task should run when: a core without I/O that takes events and a clock value and collects effects.

A task has a phase, and only these changes exist:

    WAITING --launched--> RUNNING --idle-----> PARKED --news--> WAITING
                          RUNNING --stopped--> WAITING                    (its slot was needed, or it was asked to)
                          RUNNING --failed---> WAITING                    (with back-off)
                          RUNNING --failed---> FAILED --restart--> WAITING (too many attempts, or a user must act)

A parked task costs nothing on Spark: the driver looks for news. When the tasks of a connector change, all of its runs
end before the next ones begin, so that two runs never read the same partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.connect.storage.configs import Target
from odradek.connect.storage.statuses import State
from odradek.connect.tasks.spec import Ending, Outcome

# A run of this length counts as a success: the next failure is the first one again.
PROVEN_S = 300.0
# Under contention, a run keeps its slot for this long; then a task that waits gets it.
SLICE_S = 5.0
PATIENCE_S = 1.0
# A run that lost its lease is started again after this time.
UNLEASED_S = 1.0


class Phase(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    PARKED = "parked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    attempts_max: int = 10
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0

    def delay_s(self, attempt: int) -> float:
        return float(min(self.backoff_s * 2 ** min(attempt - 1, 30), self.backoff_max_s))


@dataclass(frozen=True, slots=True)
class Launch:
    connector: str
    task: int
    run: str


@dataclass(frozen=True, slots=True)
class Halt:
    run: str
    why: str


@dataclass(frozen=True, slots=True)
class ListTasks:
    """Find out which tasks the connector has now; `version` is that of its config."""

    connector: str
    version: int


@dataclass(frozen=True, slots=True)
class Tell:
    """The status of a connector, or of one of its tasks. None: it no longer exists."""

    connector: str
    task: int | None
    state: State | None
    trace: str | None = None


Effect = Launch | Halt | ListTasks | Tell


@dataclass(slots=True)
class Task:
    phase: Phase = Phase.WAITING
    due_s: float = 0.0
    since_s: float = 0.0  # when it began to wait
    run: str | None = None
    is_connected: bool = False  # its run has started on Spark
    began_s: float = 0.0
    attempts: int = 0
    trace: str | None = None


@dataclass(slots=True)
class Connector:
    name: str
    version: int
    target: Target
    policy: RestartPolicy
    tasks: list[Task] = field(default_factory=list)
    # Runs of an earlier set of tasks that have not ended yet. No new run begins before they have.
    ending: set[str] = field(default_factory=set)
    is_listed: bool = False
    is_listing: bool = False
    list_due_s: float = 0.0
    list_attempts: int = 0
    trace: str | None = None

    @property
    def state(self) -> State:
        match self.target:
            case Target.PAUSED:
                return State.PAUSED
            case Target.STOPPED:
                return State.STOPPED
            case Target.STARTED:
                return State.FAILED if self.has_given_up else State.RUNNING

    @property
    def has_given_up(self) -> bool:
        return self.trace is not None and self.list_attempts > self.policy.attempts_max


class Fleet:
    """All connectors of the active service. `slots`: how many tasks Spark can run at once."""

    def __init__(self, slots: int, prefix: str = "run") -> None:
        self._slots = slots
        self._prefix = prefix
        self._count = 0
        self.connectors: dict[str, Connector] = {}
        self._runs: dict[str, tuple[str, int]] = {}
        self._halted: set[str] = set()
        self._effects: list[Effect] = []

    def take(self) -> list[Effect]:
        """The effects since the last call, in order."""
        taken, self._effects = self._effects, []
        return taken

    @property
    def runs(self) -> dict[str, tuple[str, int]]:
        """Runs that have not ended: the connector and task of each."""
        return self._runs

    # --- what a user wants

    def configure(self, name: str, version: int, target: Target, policy: RestartPolicy) -> None:
        """A new connector, or a new config or target state of a known one."""
        known = self.connectors.get(name)
        if known is None:
            self.connectors[name] = known = Connector(name, version, target, policy)
        elif known.version != version:
            known.version, known.policy, known.target = version, policy, target
            self._list_again(known, "the config changed")
        elif known.target is not target:
            self._retarget(known, target)
        self._tell_connector(known)

    def _retarget(self, connector: Connector, target: Target) -> None:
        connector.target = target
        if target is Target.STARTED:
            for index, task in enumerate(connector.tasks):
                if task.phase is not Phase.FAILED:
                    self._effects.append(Tell(connector.name, index, State.UNASSIGNED))
            return
        self._halt_all(connector, target.lower())
        if target is Target.STOPPED:
            self._forget_tasks(connector)
            return
        for index, task in enumerate(connector.tasks):
            if task.phase is Phase.PARKED:
                task.phase = Phase.WAITING
            if task.phase is not Phase.FAILED:
                self._effects.append(Tell(connector.name, index, State.PAUSED))

    def remove(self, name: str) -> None:
        connector = self.connectors.get(name)
        if connector is None:
            return
        self._halt_all(connector, "the connector was deleted")
        self._forget_tasks(connector)
        self._effects.append(Tell(name, None, None))
        del self.connectors[name]

    def restart(self, name: str, now: float, *, tasks: bool, only_failed: bool) -> None:
        """Restart the connector itself, and with `tasks` its tasks; with `only_failed`, only what has failed."""
        connector = self.connectors[name]
        if not only_failed or connector.trace is not None:
            connector.trace, connector.list_attempts = None, 0
            self._list_again(connector, "restarted by a user")
            self._tell_connector(connector)
        elif tasks:
            for index in range(len(connector.tasks)):
                self.restart_task(name, index, now, only_failed=only_failed)

    def restart_task(self, name: str, index: int, now: float, *, only_failed: bool = False) -> None:
        connector = self.connectors[name]
        task = connector.tasks[index]
        if only_failed and task.phase is not Phase.FAILED:
            return
        task.attempts, task.trace = 0, None
        if task.run is not None:
            self._halt(task.run, "restarted by a user")
        else:
            self._wait(task, now, now)
        self._effects.append(Tell(name, index, State.RESTARTING))

    def list_again(self, name: str, why: str) -> None:
        """The source has other partitions now, or the topics of a sink have."""
        if name in self.connectors:
            self._list_again(self.connectors[name], why)

    def _list_again(self, connector: Connector, why: str) -> None:
        self._halt_all(connector, why)
        self._forget_tasks(connector)
        connector.is_listed = connector.is_listing = False
        connector.list_due_s = 0.0

    # --- what happened

    def tasks_listed(self, name: str, version: int, count: int, now: float) -> None:
        connector = self.connectors.get(name)
        if connector is None or connector.version != version or not connector.is_listing:
            return
        connector.is_listing, connector.is_listed = False, True
        connector.trace, connector.list_attempts = None, 0
        connector.tasks = [Task(due_s=now, since_s=now) for _ in range(count)]
        for index in range(count):
            self._effects.append(Tell(name, index, State.UNASSIGNED))
        self._tell_connector(connector)

    def listing_failed(self, name: str, version: int, trace: str, now: float) -> None:
        connector = self.connectors.get(name)
        if connector is None or connector.version != version or not connector.is_listing:
            return
        connector.is_listing = False
        connector.trace = trace
        connector.list_attempts += 1
        connector.list_due_s = now + connector.policy.delay_s(connector.list_attempts)
        self._tell_connector(connector)

    def news(self, name: str, index: int, now: float) -> None:
        """There is data for a parked task."""
        connector = self.connectors.get(name)
        if connector is not None and index < len(connector.tasks) and connector.tasks[index].phase is Phase.PARKED:
            self._wait(connector.tasks[index], now, now)

    def run_connected(self, run: str, now: float) -> None:
        """Spark has started the run. Before that it waits for a Python worker, which is not its fault."""
        task = self._task_of(run)
        if task is not None:
            task.is_connected, task.began_s = True, now

    def is_connected(self, run: str) -> bool:
        task = self._task_of(run)
        return task is not None and task.is_connected

    def _task_of(self, run: str) -> Task | None:
        name, index = self._runs.get(run, ("", 0))
        connector = self.connectors.get(name)
        # The connector may have been deleted, and another one created with its name.
        if connector is None or run in connector.ending or index >= len(connector.tasks):
            return None
        task = connector.tasks[index]
        return task if task.run == run else None

    def run_ended(self, run: str, outcome: Outcome, now: float) -> None:
        if run not in self._runs:
            return
        task = self._task_of(run)
        name, index = self._runs.pop(run)
        was_halted = run in self._halted
        self._halted.discard(run)
        connector = self.connectors.get(name)
        if connector is None:
            return
        connector.ending.discard(run)
        if task is None:
            return
        task.run, task.is_connected = None, False
        if now - task.began_s >= PROVEN_S or outcome.ending is Ending.IDLE:
            self._proven(connector, index)
        if connector.target is Target.STARTED and outcome.ending is Ending.IDLE:
            task.phase = Phase.PARKED
        elif outcome.ending is Ending.IDLE or was_halted:
            self._wait(task, now, now)
        elif outcome.ending is Ending.STOPPED:
            self._wait(task, now, now + UNLEASED_S)
        else:
            trace = outcome.trace or "the run ended without a reason"
            self._failed(connector, index, trace, now, is_final=outcome.needs_user)

    def _proven(self, connector: Connector, index: int) -> None:
        """The task works again: its last failure is neither counted nor shown any more."""
        task = connector.tasks[index]
        if task.trace is not None and connector.target is Target.STARTED:
            self._effects.append(Tell(connector.name, index, State.RUNNING))
        task.attempts, task.trace = 0, None

    def _failed(self, connector: Connector, index: int, trace: str, now: float, *, is_final: bool) -> None:
        task = connector.tasks[index]
        task.attempts += 1
        task.trace = trace
        if is_final or task.attempts > connector.policy.attempts_max:
            task.phase = Phase.FAILED
            self._effects.append(Tell(connector.name, index, State.FAILED, trace))
            return
        self._wait(task, now, now + connector.policy.delay_s(task.attempts))
        self._effects.append(Tell(connector.name, index, State.RESTARTING, trace))

    # --- what to do now

    def tick(self, now: float) -> None:
        for connector in self.connectors.values():
            may_list = not (connector.is_listed or connector.is_listing or connector.ending or connector.has_given_up)
            if connector.target is Target.STARTED and may_list and now >= connector.list_due_s:
                connector.is_listing = True
                self._effects.append(ListTasks(connector.name, connector.version))
            for index, task in enumerate(connector.tasks):
                if task.trace is not None and task.is_connected and now - task.began_s >= PROVEN_S:
                    self._proven(connector, index)
        waiting = sorted(self._due(now), key=lambda found: found[1].since_s)
        for connector, task, index in ((found[0], found[1], found[2]) for found in waiting):
            if len(self._runs) >= self._slots:
                self._make_room(task, now)
                return
            self._launch(connector, task, index, now)

    def _due(self, now: float) -> Iterator[tuple[Connector, Task, int]]:
        for connector in self.connectors.values():
            if connector.target is Target.STARTED and not connector.ending:
                for index, task in enumerate(connector.tasks):
                    if task.phase is Phase.WAITING and now >= task.due_s:
                        yield connector, task, index

    def _launch(self, connector: Connector, task: Task, index: int, now: float) -> None:
        self._count += 1
        run = f"{self._prefix}-{self._count}"
        task.phase, task.run, task.began_s, task.is_connected = Phase.RUNNING, run, now, False
        self._runs[run] = (connector.name, index)
        self._effects.append(Launch(connector.name, index, run))
        # The trace of the last failure stays visible until the task has proven itself.
        self._effects.append(Tell(connector.name, index, State.RUNNING, task.trace))

    def _make_room(self, waiting: Task, now: float) -> None:
        """Ask the longest run to give up its slot, if the task has waited long enough and no run is ending already."""
        if now - max(waiting.since_s, waiting.due_s) < PATIENCE_S or self._halted:
            return
        running = [task for connector in self.connectors.values() for task in connector.tasks if task.is_connected]
        oldest = min(running, key=lambda task: task.began_s, default=None)
        if oldest is not None and oldest.run is not None and now - oldest.began_s >= SLICE_S:
            self._halt(oldest.run, "another task needs the slot")

    def _wait(self, task: Task, now: float, due_s: float) -> None:
        task.phase, task.since_s, task.due_s = Phase.WAITING, now, due_s

    def _halt(self, run: str, why: str) -> None:
        if run not in self._halted:
            self._halted.add(run)
            self._effects.append(Halt(run, why))

    def _halt_all(self, connector: Connector, why: str) -> None:
        for task in connector.tasks:
            if task.run is not None:
                self._halt(task.run, why)

    def _forget_tasks(self, connector: Connector) -> None:
        for index, task in enumerate(connector.tasks):
            if task.run is not None:
                connector.ending.add(task.run)
            self._effects.append(Tell(connector.name, index, None))
        connector.tasks = []
        connector.is_listed = False

    def _tell_connector(self, connector: Connector) -> None:
        self._effects.append(Tell(connector.name, None, connector.state, connector.trace))
