"""The topic `connect-configs`: the configs of connectors and their tasks, and whether they should run.

Keys and values are Kafka Connect's: `connector-NAME`, `task-NAME-0`, `commit-NAME`, `target-state-NAME`. Task configs
take effect with the commit record that follows them, so that no reader sees half of a new set of tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.connect.storage.topic_log import Entry

_log = logging.getLogger("odradek.connect")

CONNECTOR = "connector-"
TASK = "task-"
COMMIT = "commit-"
TARGET = "target-state-"


class Target(StrEnum):
    """What a user wants of a connector. A stopped connector has no tasks, and its offsets can be changed."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


Config = Mapping[str, str]


@dataclass(slots=True)
class ConfigState:
    """The configs as of the last entry that was applied."""

    connectors: dict[str, Config] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    tasks: dict[str, tuple[Config, ...]] = field(default_factory=dict)
    # Increases with every change of a connector's config.
    versions: dict[str, int] = field(default_factory=dict)
    _uncommitted: dict[str, dict[int, Config]] = field(default_factory=dict)

    def target(self, name: str) -> Target:
        return self.targets.get(name, Target.STARTED)

    def apply(self, entry: Entry) -> None:
        """Unknown keys are skipped: newer versions of Kafka Connect may write more kinds of records."""
        key = entry.key.decode(errors="replace")
        value = _object(entry)
        if key.startswith(CONNECTOR):
            self._connector(key.removeprefix(CONNECTOR), value)
        elif key.startswith(COMMIT):
            self._commit(key.removeprefix(COMMIT), value)
        elif key.startswith(TARGET):
            self._target(key.removeprefix(TARGET), value)
        elif key.startswith(TASK):
            name, _, index = key.removeprefix(TASK).rpartition("-")
            if value is not None and index.isdigit():
                self._uncommitted.setdefault(name, {})[int(index)] = _properties(value)

    def _connector(self, name: str, value: Mapping[str, object] | None) -> None:
        if value is None:
            for kept in (self.connectors, self.targets, self.tasks, self.versions, self._uncommitted):
                kept.pop(name, None)
            return
        self.connectors[name] = _properties(value)
        self.versions[name] = self.versions.get(name, 0) + 1

    def _commit(self, name: str, value: Mapping[str, object] | None) -> None:
        count = value.get("tasks") if value else None
        if not isinstance(count, int):
            return
        waiting = self._uncommitted.get(name, {})
        known = dict(enumerate(self.tasks.get(name, ()))) | waiting
        if all(index in known for index in range(count)):  # else compaction removed a task's config: keep the old set
            self.tasks[name] = tuple(known[index] for index in range(count))
            self._uncommitted.pop(name, None)

    def _target(self, name: str, value: Mapping[str, object] | None) -> None:
        if value is None:
            self.targets.pop(name, None)
            return
        wanted = str(value.get("state.v2") or value.get("state"))
        if wanted in Target.__members__:
            self.targets[name] = Target[wanted]


def _object(entry: Entry) -> Mapping[str, object] | None:
    """The value as an object; None for a tombstone and, with a warning, for a value that is not one."""
    if entry.value is None:
        return None
    try:
        value = json.loads(entry.value)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        _log.warning("ignored a record in %s that is not a JSON object: %r", entry.topic, entry.key[:100])
        return None
    return value


def _properties(value: Mapping[str, object]) -> Config:
    found = value.get("properties")
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def connector_entry(name: str, config: Config | None) -> Iterator[tuple[bytes, bytes | None]]:
    """The records that set a connector's config; None deletes the connector."""
    value = None if config is None else _json({"properties": dict(config)})
    yield f"{CONNECTOR}{name}".encode(), value
    if config is None:
        yield f"{TARGET}{name}".encode(), None


def target_entry(name: str, target: Target) -> Iterator[tuple[bytes, bytes | None]]:
    # Workers before Kafka 3.5 read only "state", and do not know STOPPED.
    old = Target.PAUSED if target is Target.STOPPED else target
    yield f"{TARGET}{name}".encode(), _json({"state": old, "state.v2": target})


def task_entries(name: str, configs: Sequence[Config]) -> Iterator[tuple[bytes, bytes | None]]:
    for index, config in enumerate(configs):
        yield f"{TASK}{name}-{index}".encode(), _json({"properties": dict(config)})
    yield f"{COMMIT}{name}".encode(), _json({"tasks": len(configs)})


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
