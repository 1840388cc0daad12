"""The steward: one thread that owns the state of a service, carries out the fleet's decisions, and answers requests.

Everything else (HTTP, Spark's jobs, leashes, looks, membership) runs on other threads and posts to its queue. While
another service is active it only follows the topics, so that it can answer questions and take over at once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from odradek.client.admin import Admin
from odradek.connect.common_options import CommonOptions, SourceOptions
from odradek.connect.plugins import BrokenPlugin, NoSuchPlugin, plugin
from odradek.connect.providers import Unresolved
from odradek.connect.service.assignment import task_configs
from odradek.connect.service.fencing import Fence, transactional_id
from odradek.connect.service.fleet import Fleet, Halt, Launch, ListTasks, RestartPolicy, Tell
from odradek.connect.service.jobs import Ended, Jobs
from odradek.connect.service.leashes import Leashes
from odradek.connect.service.membership import Membership
from odradek.connect.service.settings import Settings
from odradek.connect.service.task_figures import TaskFigures
from odradek.connect.service.watching import Listed, Measured, News, NotListed, Regrouped, Sighting, Watching
from odradek.connect.storage.configs import ConfigState, Target, task_entries
from odradek.connect.storage.offsets import OffsetState
from odradek.connect.storage.statuses import Status, StatusState, is_topic_of, status_entry, topic_entry
from odradek.connect.storage.topic_log import Entry, StorageFailed, TopicLog
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.connect.validation import BadConfig, Connector, connector

T = TypeVar("T")
_log = logging.getLogger("odradek.connect")

CLIENT = "connect-"  # the client id of a group's member is this and its address
TICK_S = 0.1
FOLLOW_EVERY_S = 0.5
HALT_GRACE_S = 10.0
# A run that has not started yet stops when it has: a busy machine starts Python workers slowly.
START_GRACE_S = 120.0
REQUEST_S = 60.0
QUEUE_MAX = 10_000
LOG_LINES_MAX = 1_000


class NotActive(Exception):
    """Another service of the group is active, or none is yet."""


@dataclass(slots=True)
class Figures:
    """What the tasks of a connector have reported since this service is active."""

    polled: int = 0
    written: int = 0
    skipped: int = 0
    tasks: dict[int, TaskFigures] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    lines: deque[Mapping[str, object]] = field(default_factory=lambda: deque(maxlen=LOG_LINES_MAX))


class Steward:
    """Create it, then `start`. `call` runs a function on its thread and returns its result."""

    def __init__(self, settings: Settings, jobs: Callable[[Ended], Jobs]) -> None:
        self.settings = settings
        self.admin = Admin(settings.bootstrap, settings.clients)
        self.configs, self.offsets, self.statuses = ConfigState(), OffsetState(), StatusState()
        self.fleet: Fleet | None = None
        self.figures: dict[str, Figures] = {}
        self._events: queue.Queue[Callable[[], None]] = queue.Queue(QUEUE_MAX)
        self._jobs = jobs(lambda run, outcome: self._post(lambda: self._run_ended(run, outcome)))
        self._ready: dict[str, Connector] = {}
        self._tasks: dict[str, tuple[tuple[Any, ...], ...]] = {}
        self._halts: dict[str, float] = {}
        self._applied: dict[str, tuple[int, Target]] = {}
        # Statuses that are not stored yet, by key: an append that failed is tried again.
        self._untold: dict[bytes, bytes | None] = {}
        # What was seen and waits for the lease.
        self._sightings: deque[Sighting] = deque()
        self._generation = 0
        self._stop = threading.Event()
        self._unfenced: set[tuple[str, int]] = set()
        self._fence = Fence(settings.bootstrap, settings.clients, settings.group)
        self._open_storage()
        self._watching: Watching | None = None
        self._membership = Membership(
            settings.bootstrap,
            settings.clients,
            group=settings.group,
            topic=settings.config_topic,
            client_id=f"{CLIENT}{settings.worker_id}",
            changed=lambda active: self._post(lambda: self._activated() if active else self._deactivated()),
        )
        self._leashes = Leashes(settings.driver_host, self._reported, lambda: self._membership.holds_lease)
        self._thread = threading.Thread(target=self._run_or_end, name="connect-steward", daemon=True)

    def _open_storage(self) -> None:
        wanted = self.settings

        def opened(topic: str, partitions: int, apply: Callable[[Entry], None]) -> TopicLog:
            return TopicLog(
                self.admin,
                topic,
                partitions,
                wanted.clients,
                apply,
                replication_factor=wanted.replication_factor,
                may_append=lambda: self.may_write,
            )

        self.config_log = opened(wanted.config_topic, 1, self.configs.apply)
        self.offset_log = opened(wanted.offset_topic, wanted.offset_partitions, self.offsets.apply)
        self.status_log = opened(wanted.status_topic, wanted.status_partitions, self.statuses.apply)
        # A killed service may have left transactions open in the topic of offsets. The active service aborts them.
        for log in (self.config_log, self.status_log):
            log.catch_up()

    def start(self) -> None:
        self._thread.start()
        self._membership.start()

    def close(self) -> None:
        """Stops the tasks of this service, then leaves the group."""
        if not self._stop.is_set():
            self._post(self._deactivated)
            self._wait_for_runs()
            self._stop.set()
            self._thread.join()
        self._membership.close()
        self._leashes.close()
        for log in (self.config_log, self.offset_log, self.status_log):
            log.close()

    def _wait_for_runs(self) -> None:
        deadline = time.monotonic() + HALT_GRACE_S
        while self.call(lambda: bool(self._halts)) and time.monotonic() < deadline:
            time.sleep(TICK_S / 2)

    # --- from other threads

    def call(self, function: Callable[[], T]) -> T:
        """Runs a function on the steward's thread, and returns what it returns or raises."""
        result: Future[T] = Future()
        if self._stop.is_set():
            raise NotActive("this service has ended; its log says why")

        def answer() -> None:
            try:
                result.set_result(function())
            except Exception as failed:  # noqa: BLE001 (raised again by the caller)
                result.set_exception(failed)

        self._post(answer)
        return result.result(REQUEST_S)

    def _post(self, event: Callable[[], None]) -> None:
        if not self._stop.is_set():
            self._events.put(event)

    @property
    def has_ended(self) -> bool:
        return self._stop.is_set()

    @property
    def is_active(self) -> bool:
        return self.fleet is not None

    @property
    def generation(self) -> int:
        return self._generation

    # --- the thread

    def _run_or_end(self) -> None:
        """A bug ends the service: without this thread nothing would supervise the tasks. Their leases run out."""
        try:
            self._run()
        except Exception:  # noqa: BLE001 (the boundary of the thread)
            _log.critical("the service ends because of an unexpected error", exc_info=True)
            self._stop.set()

    def _run(self) -> None:
        follow_s = 0.0
        while not self._stop.is_set():
            try:
                self._events.get(timeout=TICK_S)()
                while True:
                    self._events.get_nowait()()
            except queue.Empty:
                pass
            except StorageFailed as failed:
                _log.error("%s", failed)
            now = time.monotonic()
            if now >= follow_s:
                follow_s = now + FOLLOW_EVERY_S
                self._follow()
            self._tick(now)

    def _follow(self) -> None:
        for log in (self.config_log, self.offset_log, self.status_log):
            log.follow()

    def _tick(self, now: float) -> None:
        # Without the lease another service may be active: nothing may be started or written.
        if self.fleet is None or self._watching is None or not self._membership.holds_lease:
            return
        try:
            self.reconcile()
            while self._sightings:
                self._take_sighting(self.fleet, self._sightings.popleft())
            self.fleet.tick(now)
            self._carry_out()
            self._watching.tick(now, self.offsets.at)
            for run, deadline in list(self._halts.items()):
                if now > deadline:
                    self._halts[run] = now + HALT_GRACE_S
                    _log.warning("%s did not stop within %.0f s: Spark ends it", run, HALT_GRACE_S)
                    self._jobs.kill(run)
        except StorageFailed as failed:
            _log.error("%s", failed)

    def _activated(self) -> None:
        _log.info("this service is active: %s owns %s", self.settings.worker_id, self.settings.config_topic)
        self.config_log.catch_up()
        # Before the offsets are read: an older service that wakes up later can no longer commit any.
        self._fence.raise_for((name, task) for name in self.configs.tasks for task in range(self._count(name)))
        for log in (self.offset_log, self.status_log):
            log.catch_up()
        known = [*self.statuses.connectors.values(), *(s for t in self.statuses.tasks.values() for s in t.values())]
        self._generation = max([status.generation for status in known], default=0) + 1
        self.fleet = Fleet(self._jobs.slots, prefix=f"{self.settings.group}-{self._generation}")
        self._watching = Watching(self.admin, lambda sighting: self._post(lambda: self._saw(sighting)))
        self._applied.clear()
        self._untold.clear()
        self._sightings.clear()
        self.figures.clear()

    def _count(self, name: str) -> int:
        """How many tasks may have transactions. Those of sinks have none."""
        try:
            is_source = plugin(self.configs.connectors[name]["connector.class"]).kind == "source"
        except (KeyError, NoSuchPlugin, BrokenPlugin):
            is_source = True  # deleted, or not installed here
        return len(self.configs.tasks[name]) if is_source else 0

    def _transactional_id(self, found: Connector, task: int) -> str | None:
        """None: the task writes at least once."""
        options = found.common
        if not isinstance(options, SourceOptions) or not self.settings.exactly_once_sources:
            return None
        # If it is required but not possible, the task fails with the broker's reason.
        is_wanted = self._fence.works or options.exactly_once_support == "required"
        return transactional_id(self.settings.group, options.name, task) if is_wanted else None

    def _deactivated(self) -> None:
        if self.fleet is None or self._watching is None:
            return
        _log.info("this service is no longer active: its %d runs stop", len(self.fleet.runs))
        for run in self.fleet.runs:
            self._leashes.halt(run, "the service is no longer active")
            self._halts[run] = time.monotonic() + HALT_GRACE_S
        self._watching.close()
        self.fleet = self._watching = None
        self._ready.clear()
        self._tasks.clear()
        self._untold.clear()
        self._sightings.clear()

    # --- wanted and actual state

    def reconcile(self) -> None:
        """Makes the fleet follow the config topic: new, changed and deleted connectors."""
        fleet = self._active_fleet()
        for name, given in self.configs.connectors.items():
            wanted = (self.configs.versions[name], self.configs.target(name))
            if self._applied.get(name) == wanted:
                continue
            self._applied[name] = wanted
            try:
                self._ready[name] = found = connector(given)
            except (BadConfig, NoSuchPlugin, BrokenPlugin, Unresolved) as wrong:
                # It was valid when it was created: a plug-in or a file that it refers to is gone.
                self._ready.pop(name, None)
                fleet.configure(name, *wanted, RestartPolicy())
                _log.warning("the connector %s cannot start: %s", name, wrong)
                continue
            version, target = wanted
            fleet.configure(name, version, target, _policy(found.common))
            if self._watching is not None and target is not Target.STARTED:
                self._watching.measure(found, version)
        for name in self._applied.keys() - self.configs.connectors.keys():
            del self._applied[name]
            self._ready.pop(name, None)
            self._tasks.pop(name, None)
            self.figures.pop(name, None)
            fleet.remove(name)
            if self._watching is not None:
                self._watching.drop(name)
            self._forget_topics(name)

    @property
    def may_write(self) -> bool:
        return self.fleet is not None and self._membership.holds_lease

    def restart(self, name: str, *, tasks: bool, only_failed: bool) -> None:
        self.reconcile()
        self._active_fleet().restart(name, time.monotonic(), tasks=tasks, only_failed=only_failed)
        self._carry_out()

    def restart_task(self, name: str, task: int) -> bool:
        """False if there is no such task."""
        fleet = self._active_fleet()
        if name not in fleet.connectors or not 0 <= task < len(fleet.connectors[name].tasks):
            # While its tasks are listed again, a task of `connect-configs` starts soon anyway.
            return 0 <= task < len(self.configs.tasks.get(name, ()))
        fleet.restart_task(name, task, time.monotonic())
        self._carry_out()
        return True

    def is_stopped(self, name: str) -> bool:
        """Whether the connector is stopped, and none of its runs is still ending."""
        return self.configs.target(name) is Target.STOPPED and not self.is_stopping(name)

    def is_stopping(self, name: str) -> bool:
        self.reconcile()
        found = self._active_fleet().connectors.get(name)
        return found is not None and found.target is Target.STOPPED and bool(found.ending)

    def _active_fleet(self) -> Fleet:
        if self.fleet is None:
            raise NotActive("this service is not the active one of its group")
        return self.fleet

    def _carry_out(self) -> None:
        fleet = self._active_fleet()
        for effect in fleet.take():
            match effect:
                case Launch():
                    try:
                        self._launch(effect)
                    except StorageFailed as failed:
                        fleet.run_ended(effect.run, Outcome(ending=Ending.FAILED, trace=str(failed)), time.monotonic())
                case Halt(run, why):
                    self._leashes.halt(run, why)
                    grace_s = HALT_GRACE_S if fleet.is_connected(run) else START_GRACE_S
                    self._halts[run] = time.monotonic() + grace_s
                case ListTasks(name, version):
                    self._list(name, version)
                case Tell(name, task, state, trace):
                    status = None
                    if state is not None:
                        worker, generation = self.settings.worker_id, self._generation
                        status = Status(state=state, trace=trace, worker_id=worker, generation=generation)
                    self._will_tell([status_entry(name, task, status)])
        if self._untold:
            self.status_log.append(list(self._untold.items()))
            self._untold.clear()

    def _will_tell(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """The next tick that has the lease stores them. A newer status of the same part replaces an older one."""
        self._untold.update(entries)

    def _list(self, name: str, version: int) -> None:
        fleet = self._active_fleet()
        if name in self._ready and self._watching is not None:
            self._watching.list_tasks(self._ready[name], version)
            return
        try:
            self._ready[name] = connector(self.configs.connectors[name])
        except (BadConfig, NoSuchPlugin, BrokenPlugin, Unresolved) as wrong:
            fleet.listing_failed(name, version, str(wrong), time.monotonic())
        else:
            self._list(name, version)

    def _launch(self, effect: Launch) -> None:
        found = self._ready[effect.connector]
        parts = self._tasks[effect.connector][effect.task]
        if self._watching is not None:
            self._watching.unpark(effect.connector, effect.task)
        partitions: tuple[Any, ...] = ()
        if found.is_source:
            if self._unfenced:
                self._fence.raise_for(self._unfenced)
                self._unfenced.clear()
            # The task that ran before wrote its offsets to the topic, and the topic alone is right.
            self.offset_log.catch_up()
            partitions = tuple((dict(part), self.offsets.at(effect.connector, part)) for part in parts)
        self._leashes.expect(effect.run)
        self._jobs.launch(
            TaskSpec(
                run=effect.run,
                connector=effect.connector,
                task=effect.task,
                given=dict(found.given),
                bootstrap=self.settings.bootstrap,
                clients=dict(self.settings.clients),
                offsets_topic=self.settings.offset_topic,
                driver=self._leashes.address,
                token=self._leashes.token,
                linger_s=self.settings.linger_s,
                transactional_id=self._transactional_id(found, effect.task),
                partitions=partitions,
                topics=() if found.is_source else parts,
            )
        )

    # --- what happened

    def _run_ended(self, run: str, outcome: Outcome) -> None:
        self._halts.pop(run, None)
        self._leashes.forget(run)
        fleet = self.fleet
        if fleet is None or run not in fleet.runs:
            return
        name, task = fleet.runs[run]
        if outcome.ending in (Ending.FAILED, Ending.LOST):
            # It may have left a transaction open, or still be running.
            self._unfenced.add((name, task))
            self._task_figures(name, task).failures += 1
            _log.warning("task %s of %s failed: %s", task, name, (outcome.trace or "").strip().rpartition("\n")[2])
            self._figures(name).lines.append({"at": time.time(), "task": task, "level": "ERROR", "text": outcome.trace})
        if outcome.ending is Ending.IDLE and self._watching is not None:
            self._watching.park(name, task, outcome.seen)
        fleet.run_ended(run, outcome, time.monotonic())

    def _saw(self, sighting: Sighting) -> None:
        if self.fleet is not None:
            self._sightings.append(sighting)

    def _take_sighting(self, fleet: Fleet, sighting: Sighting) -> None:
        now = time.monotonic()
        match sighting:
            case Listed(name, version, tasks):
                self._listed(fleet, name, version, tasks)
            case NotListed(name, version, trace):
                fleet.listing_failed(name, version, trace, now)
            case News(name, task):
                fleet.news(name, task, now)
            case Measured(name, levels):
                self._figures(name).levels = levels
            case Regrouped(name, version) if self.configs.versions.get(name) == version:
                fleet.list_again(name, "its partitions changed")
            case _:
                pass

    def _listed(self, fleet: Fleet, name: str, version: int, tasks: tuple[tuple[Any, ...], ...]) -> None:
        if name not in self.configs.connectors or self.configs.versions[name] != version:
            return
        configs = task_configs(self.configs.connectors[name], tasks)
        if tuple(configs) != self.configs.tasks.get(name):
            try:
                self.config_log.append(task_entries(name, configs))
            except StorageFailed as failed:
                fleet.listing_failed(name, version, str(failed), time.monotonic())  # else nothing would list it again
                return
        self._tasks[name] = tasks
        fleet.tasks_listed(name, version, len(tasks), time.monotonic())

    def _reported(self, run: str, facts: Mapping[str, object]) -> None:
        self._post(lambda: self._take_report(run, facts))

    def _take_report(self, run: str, facts: Mapping[str, Any]) -> None:
        if self.fleet is None or run not in self.fleet.runs:
            return
        name, task = self.fleet.runs[run]
        if "connected" in facts:
            self.fleet.run_connected(run, time.monotonic())
            return
        if name not in self.configs.connectors:
            return  # it was deleted, and its topics are forgotten
        figures = self._figures(name)
        if "log" in facts:
            figures.lines.append({"at": facts.get("at"), "task": task, **facts["log"]})
            return
        figures.polled += facts.get("polled", 0)
        figures.written += facts.get("written", 0)
        figures.skipped += facts.get("skipped", 0)
        self._count_report(name, task, facts)
        known = self.statuses.topics.get(name, {})
        new = [topic for topic in facts.get("topics", ()) if topic not in known]
        if new:
            now_ms = int(time.time() * 1000)
            self._will_tell([topic_entry(name, topic, task, now_ms) for topic in new])

    def _count_report(self, name: str, task: int, facts: Mapping[str, Any]) -> None:
        ready = self._ready.get(name)
        skipped = facts.get("skipped", 0)
        has_letters = ready is not None and bool(ready.common.errors_deadletterqueue_topic_name)
        dead_letters = skipped if has_letters else 0
        # Sources write their dead letters with the records.
        written = facts.get("written", 0) - (dead_letters if ready is not None and ready.is_source else 0)
        self._task_figures(name, task).report(
            polled=facts.get("polled", 0),
            written=written,
            skipped=skipped,
            dead_letters=dead_letters,
            now_ns=time.monotonic_ns(),
        )

    def _task_figures(self, name: str, task: int) -> TaskFigures:
        return self._figures(name).tasks.setdefault(task, TaskFigures.beginning(time.monotonic_ns()))

    def is_source(self, name: str) -> bool | None:
        """None if the connector cannot start here."""
        ready = self._ready.get(name)
        return None if ready is None else ready.is_source

    def _figures(self, name: str) -> Figures:
        return self.figures.setdefault(name, Figures())

    def _forget_topics(self, name: str) -> None:
        """Also topics that are not stored yet."""
        self._will_tell([topic_entry(name, topic, None, 0) for topic in self.statuses.topics.get(name, ())])
        self._will_tell([(key, None) for key in self._untold if is_topic_of(key, name)])


def _policy(options: CommonOptions) -> RestartPolicy:
    return RestartPolicy(
        attempts_max=options.restart_attempts_max,
        backoff_s=options.restart_backoff_ms / 1000,
        backoff_max_s=options.restart_backoff_max_ms / 1000,
    )
