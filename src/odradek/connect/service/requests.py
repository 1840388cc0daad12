"""What users ask of a service: create, change, look at and delete connectors, and their offsets.

All of it runs on the steward's thread. Errors have Kafka Connect's status codes and sentences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from odradek.client.records import ClientError
from odradek.connect.options import MASK
from odradek.connect.plugins import BrokenPlugin, NoSuchPlugin, plugin
from odradek.connect.providers import REFERENCE
from odradek.connect.records import Offset, Partition
from odradek.connect.service.metering import readings
from odradek.connect.service.steward import CLIENT, NotActive, Steward
from odradek.connect.storage.configs import Config, Target, connector_entry, target_entry
from odradek.connect.storage.offsets import offset_entries
from odradek.connect.storage.statuses import State, Status, topic_entry
from odradek.connect.storage.topic_log import NotAllowed
from odradek.connect.validation import secrets_of, validated
from odradek.monitor.registry import Reading

T = TypeVar("T")

STOPPING_S = 15.0
INVALID = (
    "Connector configuration is invalid and contains the following {count} error(s):\n{errors}\n"
    "You can also find the above list of errors at the endpoint "
    "`/connector-plugins/{{connectorType}}/config/validate`"
)
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
    "connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)


class Refused(Exception):
    """A request that is not carried out, with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Requests:
    """The methods may be called from any thread."""

    def __init__(self, steward: Steward) -> None:
        self._steward = steward

    # --- looking

    @property
    def is_active(self) -> bool:
        return self._steward.is_active

    @property
    def worker(self) -> str:
        """The address of this service."""
        return self._steward.settings.worker_id

    def active_worker(self) -> str | None:
        """The address of the active service of this group, as its client id in the group says."""
        members = self._steward.admin.group_members(self._steward.settings.group)
        owners = [client for client, places in members if places]
        return owners[0].removeprefix(CLIENT) if owners else None

    def names(self) -> list[str]:
        return self._on_steward(lambda: sorted(self._steward.configs.connectors))

    def info(self, name: str) -> dict[str, object]:
        return self._on_steward(lambda: self._info(name))

    def _info(self, name: str) -> dict[str, object]:
        config = self._config(name)
        tasks = self._steward.configs.tasks.get(name, ())
        return {
            "name": name,
            "config": masked(config),
            "tasks": [{"connector": name, "task": index} for index in range(len(tasks))],
            "type": type_of(config),
        }

    def config(self, name: str) -> dict[str, str]:
        return self._on_steward(lambda: masked(self._config(name)))

    def status(self, name: str) -> dict[str, object]:
        return self._on_steward(lambda: self._status(name))

    def _status(self, name: str) -> dict[str, object]:
        known = self._steward.statuses
        if name not in known.connectors or name not in self._steward.configs.connectors:
            raise Refused(404, f"No status found for connector {name}")
        tasks = known.tasks.get(name, {})
        version = version_of(self._config(name))
        return {
            "name": name,
            "connector": shown_status(known.connectors[name], version),
            "tasks": [{"id": index, **shown_status(tasks[index], version)} for index in sorted(tasks)],
            "type": type_of(self._config(name)),
        }

    def task_status(self, name: str, task: int) -> dict[str, object]:
        def found() -> dict[str, object]:
            status = self._steward.statuses.tasks.get(name, {}).get(task)
            if status is None:
                raise Refused(404, f"No status found for task {name}-{task}")
            return {"id": task, **shown_status(status, version_of(self._config(name)))}

        return self._on_steward(found)

    def tasks(self, name: str) -> list[dict[str, object]]:
        def found() -> list[dict[str, object]]:
            self._config(name)
            configs = self._steward.configs.tasks.get(name, ())
            return [
                {"id": {"connector": name, "task": index}, "config": masked(config)}
                for index, config in enumerate(configs)
            ]

        return self._on_steward(found)

    def topics(self, name: str) -> list[str]:
        def found() -> list[str]:
            self._config(name)
            return sorted(self._steward.statuses.topics.get(name, ()))

        return self._on_steward(found)

    def logs(self, name: str) -> list[Mapping[str, object]]:
        def found() -> list[Mapping[str, object]]:
            self._config(name)
            figures = self._steward.figures.get(name)
            return list(figures.lines) if figures else []

        return self._on_steward(found)

    def readings(self) -> list[Reading]:
        """The metrics of connectors and tasks. None of a service that has ended."""
        try:
            return self._steward.call(lambda: readings(self._steward))
        except NotActive:
            return []

    def figures(self, name: str) -> dict[str, int]:
        def found() -> dict[str, int]:
            self._config(name)
            known = self._steward.figures.get(name)
            return (
                {"polled": 0, "written": 0, "skipped": 0}
                if known is None
                else {"polled": known.polled, "written": known.written, "skipped": known.skipped}
            )

        return self._on_steward(found)

    # --- changing

    def create(self, name: str, given: Mapping[str, str], target: Target) -> dict[str, object]:
        config = self._named(name, given)

        def create() -> dict[str, object]:
            if name in self._steward.configs.connectors:
                raise Refused(409, f"Connector {name} already exists")
            self._require_active()
            if target is not Target.STARTED:
                self._steward.config_log.append(target_entry(name, target))
            self._store(name, config)
            return self._info(name)

        self._check(config)
        return self._on_steward(create)

    def put_config(self, name: str, given: Mapping[str, str]) -> tuple[bool, dict[str, object]]:
        """Whether the connector is new, and its info."""
        config = self._unmasked(name, self._named(name, given))
        self._check(config)

        def put() -> tuple[bool, dict[str, object]]:
            self._require_active()
            is_new = name not in self._steward.configs.connectors
            self._store(name, config)
            return is_new, self._info(name)

        return self._on_steward(put)

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> dict[str, object]:
        before = self._on_steward(lambda: dict(self._config(name)))
        merged = {key: text for key, text in {**before, **changes}.items() if text is not None}
        return self.put_config(name, merged)[1]

    def delete(self, name: str) -> None:
        def delete() -> None:
            self._config(name)
            self._require_active()
            self._steward.config_log.append(connector_entry(name, None))
            self._steward.reconcile()

        self._on_steward(delete)

    def set_target(self, name: str, target: Target) -> None:
        def change() -> None:
            self._config(name)
            self._require_active()
            self._steward.config_log.append(target_entry(name, target))
            self._steward.reconcile()

        self._on_steward(change)

    def restart(self, name: str, *, tasks: bool, only_failed: bool) -> dict[str, object]:
        def restart() -> dict[str, object]:
            self._config(name)
            self._require_active()
            before = self._status(name)
            self._steward.restart(name, tasks=tasks, only_failed=only_failed)
            return _restarting(before, tasks=tasks, only_failed=only_failed)

        return self._on_steward(restart)

    def restart_task(self, name: str, task: int) -> None:
        def restart() -> None:
            self._config(name)
            self._require_active()
            if not self._steward.restart_task(name, task):
                raise Refused(404, f"Unknown task: {name}-{task}")

        self._on_steward(restart)

    def forget_topics(self, name: str) -> None:
        def forget() -> None:
            self._config(name)
            self._require_active()
            known = list(self._steward.statuses.topics.get(name, ()))
            self._steward.status_log.append([topic_entry(name, topic, None, 0) for topic in known])

        self._on_steward(forget)

    # --- offsets

    def offsets(self, name: str) -> list[dict[str, object]]:
        def of_source() -> list[dict[str, object]] | None:
            if type_of(self._config(name)) == "sink":
                return None
            self._steward.offset_log.catch_up()
            return [{"partition": part, "offset": offset} for part, offset in self._steward.offsets.of(name)]

        found = self._on_steward(of_source)
        if found is not None:
            return found
        committed = self._steward.admin.committed(f"connect-{name}")
        return [
            {"partition": {"kafka_topic": topic, "kafka_partition": index}, "offset": {"kafka_offset": offset}}
            for (topic, index), offset in sorted(committed.items())
        ]

    def alter_offsets(self, name: str, changes: Sequence[tuple[Partition, Offset | None]]) -> None:
        self._await_stopped(name)
        config = self._on_steward(lambda: self._config(name))
        if type_of(config) == "sink":
            self._alter_group(name, changes)
            return
        self._on_steward(lambda: self._alter_source(name, changes))

    def reset_offsets(self, name: str) -> None:
        self._await_stopped(name)
        if type_of(self._on_steward(lambda: self._config(name))) == "sink":
            self._steward.admin.delete_group(f"connect-{name}")
            return

        def reset() -> None:
            self._steward.offset_log.catch_up()
            self._alter_source(name, [(part, None) for part, _ in self._steward.offsets.of(name)])

        self._on_steward(reset)

    def _alter_source(self, name: str, changes: Iterable[tuple[Partition, Offset | None]]) -> None:
        self._require_stopped(name)
        self._steward.offset_log.append(offset_entries(name, changes))

    def _alter_group(self, name: str, changes: Sequence[tuple[Partition, Offset | None]]) -> None:
        try:
            wanted = {
                (str(part["kafka_topic"]), int(str(part["kafka_partition"]))): None
                if offset is None
                else int(str(offset["kafka_offset"]))
                for part, offset in changes
            }
        except (KeyError, ValueError) as wrong:
            raise Refused(
                400,
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition', "
                f"and the offset the key 'kafka_offset': {wrong}",
            ) from None
        group, admin = f"connect-{name}", self._steward.admin
        if None in wanted.values():
            # librdkafka's admin client for Python cannot delete single offsets. The group has no members now.
            wanted = {**admin.committed(group), **wanted}
            admin.delete_group(group)
        kept = {place: offset for place, offset in wanted.items() if offset is not None}
        if kept:
            admin.set_committed(group, kept)

    def _await_stopped(self, name: str) -> None:
        """A connector that was stopped a moment ago may have tasks that are still ending."""
        deadline = time.monotonic() + STOPPING_S
        while self._on_steward(lambda: self._steward.is_stopping(name)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._on_steward(lambda: self._require_stopped(name))

    def _require_stopped(self, name: str) -> None:
        self._config(name)
        self._require_active()
        if not self._steward.is_stopped(name):
            raise Refused(400, NOT_STOPPED.format(name=name))

    # --- parts of these

    def _on_steward(self, function: Callable[[], T]) -> T:
        try:
            return self._steward.call(function)
        except (NotActive, NotAllowed) as idle:
            raise Refused(409, str(idle)) from None
        except ClientError as failed:
            raise Refused(500, str(failed)) from None

    def _require_active(self) -> None:
        if not self._steward.may_write:
            raise NotActive("Cannot complete request because no service of this group is active here. Retry soon.")

    def _config(self, name: str) -> Config:
        config = self._steward.configs.connectors.get(name)
        if config is None:
            raise Refused(404, f"Connector {name} not found")
        return config

    def _named(self, name: str, given: Mapping[str, str]) -> dict[str, str]:
        if given.get("name", name) != name:
            raise Refused(
                400,
                f"Connector name configuration ({given['name']}) doesn't match connector name in the URL ({name})",
            )
        return {**given, "name": name}

    def _unmasked(self, name: str, config: dict[str, str]) -> dict[str, str]:
        """A value that came masked from this service is the stored value."""
        before = self._on_steward(lambda: self._steward.configs.connectors.get(name, {}))
        return {key: before.get(key, text) if text == MASK else text for key, text in config.items()}

    def _check(self, config: Mapping[str, str]) -> None:
        if "connector.class" not in config:
            raise Refused(400, f"Connector config {masked(config)} contains no connector type")
        try:
            errors = validated(config).errors
        except (NoSuchPlugin, BrokenPlugin) as missing:
            raise Refused(400, str(missing)) from None
        if errors:
            raise Refused(400, INVALID.format(count=len(errors), errors="\n".join(errors)))

    def _store(self, name: str, config: Mapping[str, str]) -> None:
        self._steward.config_log.append(connector_entry(name, config))
        self._steward.reconcile()


def masked(config: Mapping[str, str]) -> dict[str, str]:
    """The config with passwords as asterisks. A reference such as `${file:…}` is no secret."""
    hidden = secrets_of(config)
    return {name: MASK if name in hidden and not REFERENCE.fullmatch(text) else text for name, text in config.items()}


def type_of(config: Mapping[str, str]) -> str:
    try:
        return plugin(config.get("connector.class", "")).kind
    except (NoSuchPlugin, BrokenPlugin):
        return "unknown"


def _restarting(status: dict[str, Any], *, tasks: bool, only_failed: bool) -> dict[str, object]:
    """The status in the answer to a restart: what restarts is RESTARTING, whatever it has become meanwhile."""

    def changed(part: dict[str, Any]) -> dict[str, Any]:
        if only_failed and part["state"] != State.FAILED:
            return part
        return {**{name: value for name, value in part.items() if name != "trace"}, "state": str(State.RESTARTING)}

    return {
        **status,
        "connector": changed(status["connector"]),
        "tasks": [changed(task) if tasks else task for task in status["tasks"]],
    }


def version_of(config: Mapping[str, str]) -> str:
    try:
        return plugin(config.get("connector.class", "")).version
    except (NoSuchPlugin, BrokenPlugin):
        return "unknown"


def shown_status(status: Status, version: str) -> dict[str, Any]:
    told: dict[str, Any] = {"state": str(status.state), "worker_id": status.worker_id, "version": version}
    return told if status.trace is None else {**told, "trace": status.trace}
