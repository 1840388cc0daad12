"""The metrics of a service, read on the steward's thread when they are asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from odradek.connect.service.steward import Steward
from odradek.connect.service.task_figures import TaskFigures
from odradek.connect.storage.statuses import State
from odradek.monitor.catalogue import connect as m
from odradek.monitor.registry import Reading

BY_STATE = {
    State.RUNNING: m.RUNNING_TASKS,
    State.PAUSED: m.PAUSED_TASKS,
    State.UNASSIGNED: m.UNASSIGNED_TASKS,
    State.RESTARTING: m.RESTARTING_TASKS,
    State.FAILED: m.FAILED_TASKS,
}
# By the names that `Source.levels` uses.
LEVELS = {"slot.retained.bytes": m.SLOT_RETAINED, "slot.lag.bytes": m.SLOT_LAG}


def readings(steward: Steward) -> list[Reading]:
    """Runs on the steward's thread. A service that stands by knows only its connectors and their states."""
    return list(_readings(steward))


def _readings(steward: Steward) -> Iterator[Reading]:
    names = sorted(steward.configs.connectors)
    yield Reading(m.ACTIVE, (), int(steward.is_active))
    yield Reading(m.CONNECTORS, (), len(names))
    yield Reading(m.TASKS, (), sum(len(steward.statuses.tasks.get(name, ())) for name in names))
    if steward.is_active:
        for name in names:
            yield from _connector(steward, name)


def _connector(steward: Steward, name: str) -> Iterator[Reading]:
    tasks = steward.statuses.tasks.get(name, {})
    states = Counter(status.state for status in tasks.values())
    yield Reading(m.TOTAL_TASKS, (name,), len(tasks))
    for state, metric in BY_STATE.items():
        yield Reading(metric, (name,), states[state])
    if name in steward.statuses.connectors:
        yield Reading(m.CONNECTOR_STATUS, (name,), steward.statuses.connectors[name].state.lower())
    yield Reading(m.CONNECTOR_CLASS, (name,), steward.configs.connectors[name].get("connector.class", ""))
    is_source = steward.is_source(name)
    if is_source is not None:
        yield Reading(m.CONNECTOR_TYPE, (name,), "source" if is_source else "sink")
    for index, status in sorted(tasks.items()):
        yield Reading(m.TASK_STATUS, (name, str(index)), status.state.lower())
    if is_source is None:
        return
    known = steward.figures.get(name)
    for level, number in (known.levels if known is not None else {}).items():
        yield Reading(LEVELS[level], (name,), number)
    for index in sorted(tasks):
        # A series must exist before it grows: an alert on its increase does not see the first value.
        figures = None if known is None else known.tasks.get(index)
        yield from _task((name, str(index)), figures or TaskFigures.beginning(0), is_source=is_source)


def _task(labels: tuple[str, str], figures: TaskFigures, *, is_source: bool) -> Iterator[Reading]:
    now_ns = time.monotonic_ns()
    first = (m.POLLED, m.POLLED_RATE) if is_source else (m.READ, m.READ_RATE)
    second = (m.WRITTEN, m.WRITTEN_RATE) if is_source else (m.SENT, m.SENT_RATE)
    for (total, rate), counted in ((first, figures.polled), (second, figures.written)):
        yield Reading(total, labels, counted.total)
        yield Reading(rate, labels, counted.per_second(now_ns))
    yield Reading(m.BATCH_SIZE_AVG, labels, figures.batches.average(now_ns))
    yield Reading(m.BATCH_SIZE_MAX, labels, figures.batches.maximum(now_ns))
    yield Reading(m.SKIPPED, labels, figures.skipped)
    yield Reading(m.DEAD_LETTERS, labels, figures.dead_letters)
    yield Reading(m.FAILURES, labels, figures.failures)
