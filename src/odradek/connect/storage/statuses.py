"""The topic `connect-status`: the state of connectors and tasks, and the topics that each connector uses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.connect.storage.topic_log import Entry

CONNECTOR = "status-connector-"
TASK = "status-task-"
TOPIC = re.compile(r"status-topic-(.+):connector-(.+)", re.DOTALL)


class State(StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    state: State
    worker_id: str
    trace: str | None = None
    generation: int = 0


@dataclass(slots=True)
class StatusState:
    """The newest statuses. Tasks are by connector, then number; topics by connector."""

    connectors: dict[str, Status] = field(default_factory=dict)
    tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)  # topic -> task that used it first

    def apply(self, entry: Entry) -> None:
        key = entry.key.decode(errors="replace")
        if found := TOPIC.fullmatch(key):
            self._topic(found[1], found[2], entry.value)
        elif key.startswith(CONNECTOR):
            name = key.removeprefix(CONNECTOR)
            _keep(self.connectors, name, _status(entry.value))
        elif key.startswith(TASK):
            name, _, index = key.removeprefix(TASK).rpartition("-")
            if index.isdigit():
                _keep(self.tasks.setdefault(name, {}), int(index), _status(entry.value))

    def _topic(self, topic: str, connector: str, value: bytes | None) -> None:
        if value is None:
            self.topics.get(connector, {}).pop(topic, None)
            return
        told = _object(value).get("topic")
        task = told.get("task", 0) if isinstance(told, dict) else 0
        self.topics.setdefault(connector, {})[topic] = int(task)


def _keep(known: dict, key: object, status: Status | None) -> None:  # type: ignore[type-arg]
    if status is None:
        known.pop(key, None)
    else:
        known[key] = status


def _status(value: bytes | None) -> Status | None:
    told = {} if value is None else _object(value)
    if str(told.get("state")) not in State.__members__:
        return None
    return Status(
        state=State[str(told["state"])],
        worker_id=str(told.get("worker_id", "")),
        trace=None if told.get("trace") is None else str(told["trace"]),
        generation=int(str(told.get("generation") or 0)),
    )


def _object(value: bytes) -> dict[str, object]:
    try:
        told = json.loads(value)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def status_entry(connector: str, task: int | None, status: Status | None) -> tuple[bytes, bytes | None]:
    """The record for the status of a connector, or of one of its tasks. None forgets it."""
    key = f"{CONNECTOR}{connector}" if task is None else f"{TASK}{connector}-{task}"
    if status is None:
        return key.encode(), None
    told = {
        "state": status.state,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    return key.encode(), json.dumps(told).encode()


def topic_entry(connector: str, topic: str, task: int | None, now_ms: int) -> tuple[bytes, bytes | None]:
    """The record that says that a connector uses a topic; without a task, that it is forgotten."""
    key = f"status-topic-{topic}:connector-{connector}".encode()
    if task is None:
        return key, None
    told = {"topic": {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}}
    return key, json.dumps(told).encode()


def is_topic_of(key: bytes, connector: str) -> bool:
    """Whether a record with this key says that the connector uses a topic."""
    found = TOPIC.fullmatch(key.decode(errors="replace"))
    return found is not None and found[2] == connector
