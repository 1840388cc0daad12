"""Reads all connect services at once. One that is silent keeps its last connectors, with the problem beside them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from odradek.console.collecting.history import History
from odradek.console.collecting.snapshot import Group, Snapshot
from odradek.console.connectors.api import ConnectApi, Declined, Silent, services
from odradek.console.connectors.secrets import masked
from odradek.console.connectors.seen import RUNNING, Connect, Connector, Figures, Service, Task
from odradek.monitor.jolokia.object_name import MalformedName, parsed, unquoted
from odradek.watch.watched_cluster import now_ms

AT_ONCE_MAX = 8
# The default address is tried less often while no service answers there.
ABSENT_S = 10.0
RECENT_S = 300.0
# A connector that failed is shown as restarting until all its tasks have run for so long.
RECOVERED_S = 20.0
TRACE_CHARS_MAX = 20_000
PLUGINS_MAX = 500
ODRADEK = "odradek"  # where Apache Kafka's Connect has the commit of its build
SINK, SOURCE = "sink", "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    service: Service
    connectors: tuple[Connector, ...] = ()


class Reader:
    """`history` gets the rates of connectors, by the names of `rate_figure`."""

    def __init__(self, urls: Sequence[str], history: History, now_s: Callable[[], float] = time.monotonic) -> None:
        self.apis = services(urls)
        self._history = history
        self._now_s = now_s
        self._failures: dict[tuple[str, str], tuple[float, str]] = {}  # when the last one was seen, and its trace
        self._has_read = False
        self._last: dict[str, _Answer] = {}
        self._not_before_s: dict[str, float] = {}
        self._plugins: dict[tuple[str, str], frozenset[str]] = {}
        self._skipped: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="odradek-console-connect")

    def read(self, snapshot: Snapshot) -> Connect | None:
        """None if the operator gave no address, and no service of this cluster answers at the default one."""
        answers = list(self._pool.map(lambda api: self._one(api, snapshot.cluster_id), self.apis.values()))
        found = [answer for answer in answers if answer is not None]
        if not found:
            return None
        connectors: dict[tuple[str, str], Connector] = {}
        for answer in found:
            for each in answer.connectors:
                # Two services of one group report the same connectors: the first service that answers counts.
                known = connectors.get((each.name, each.worker))
                if known is None or (_is_silent(found, known.service) and not answer.service.problem):
                    connectors[each.name, each.worker] = self._complete(each, snapshot.groups)
        ordered = sorted(connectors.values(), key=lambda each: (each.name, each.service))
        self._has_read = True
        self._forget_others({(each.service, each.name) for each in ordered})
        rates = {rate_figure(each): each.figures.written_per_s for each in ordered if each.figures is not None}
        self._history.add(now_ms(), rates)
        return Connect(services=tuple(answer.service for answer in found), connectors=tuple(ordered))

    def now(self, api: ConnectApi, name: str, before: Connector | None) -> Connector:
        """One connector, asked for now; what only the snapshot knows is as in `before`. Raises Silent, Declined."""
        info, status = api.get("connectors", name), api.get("connectors", name, "status")
        figures = {task.number: task.figures for task in before.tasks if task.figures} if before else {}
        try:
            secrets = self.secrets_of(api, str(info["config"].get("connector.class", "")))
            found = connector_of(api.key, name, info, status, figures, secrets)
        except (TypeError, KeyError, AttributeError, ValueError) as wrong:
            raise Silent(f"{api.url} is not Connect's REST API: {type(wrong).__name__}") from wrong
        if before is None:
            return found
        return replace(
            found,
            lag=before.lag,
            seconds_behind=before.seconds_behind,
            rule=before.rule,
            newly_skipped=before.newly_skipped,
            recent_trace=before.recent_trace,
        )

    def repaired(self, api: ConnectApi, name: str) -> None:
        """The operator has restarted or changed it: only a new failure counts."""
        self._failures.pop((api.key, name), None)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def secrets_of(self, api: ConnectApi, plugin: str) -> frozenset[str]:
        """The options of the type PASSWORD that a plug-in declares; none if the service does not say."""
        known = self._plugins.get((api.key, plugin))
        if known is not None or not plugin:
            return known or frozenset()
        try:
            declared = api.get("connector-plugins", plugin, "config")
            found = frozenset(str(each["name"]) for each in declared if each.get("type") == "PASSWORD")
        except (Silent, Declined, TypeError, KeyError, AttributeError):
            return frozenset()
        if len(self._plugins) >= PLUGINS_MAX:
            self._plugins.clear()
        self._plugins[api.key, plugin] = found
        return found

    # One service

    def _one(self, api: ConnectApi, cluster_id: str) -> _Answer | None:
        before = self._last.get(api.key)
        if time.monotonic() < self._not_before_s.get(api.key, 0.0):
            return before
        try:
            answer = self._asked(api, cluster_id)
        except (Silent, Declined) as failed:
            return self._silent(api, before, str(failed))
        except (TypeError, KeyError, AttributeError, ValueError) as wrong:
            return self._silent(api, before, f"{api.url} is not Connect's REST API: {type(wrong).__name__}")
        if answer is not None:
            self._last[api.key] = answer
        else:
            self._not_before_s[api.key] = time.monotonic() + ABSENT_S
        return answer

    def _silent(self, api: ConnectApi, before: _Answer | None, why: str) -> _Answer | None:
        if api.is_default:
            self._not_before_s[api.key] = time.monotonic() + (ABSENT_S if before is None else 0.0)
            if before is None:
                return None
        service = before.service if before else Service(key=api.key, url=api.url, is_default=api.is_default)
        return _Answer(service=replace(service, problem=why), connectors=before.connectors if before else ())

    def _asked(self, api: ConnectApi, cluster_id: str) -> _Answer | None:
        root = api.get()
        service = Service(
            key=api.key,
            url=api.url,
            is_default=api.is_default,
            version=str(root["version"]),
            is_odradek=root.get("commit") == ODRADEK,
        )
        theirs = str(root.get("kafka_cluster_id") or "")
        if theirs and cluster_id and theirs != cluster_id:
            if api.is_default:
                return None
            return _Answer(service=replace(service, problem=f"{api.url} works for another cluster, {theirs}"))
        told = api.get("connectors", expand=["status", "info"])
        figures = _figures(api) if service.is_odradek else {}
        connectors = tuple(
            connector_of(
                api.key, name, parts["info"], parts["status"], figures.get(name, {}), self._secrets(api, parts)
            )
            for name, parts in told.items()
        )
        return _Answer(service=service, connectors=connectors)

    def _secrets(self, api: ConnectApi, parts: Mapping[str, Any]) -> Collection[str]:
        return self.secrets_of(api, str(parts["info"]["config"].get("connector.class", "")))

    # What is known beside the services

    def _complete(self, each: Connector, groups: Mapping[str, Group]) -> Connector:
        each = replace(each, recent_trace=self._recent_trace(each))
        figures = each.figures
        skipped = 0.0 if figures is None else self._newly_skipped(each, max(figures.skipped, figures.dead_letters))
        group = groups.get(each.group) if each.kind == SINK else None
        if group is None or group.lag is None:
            return replace(each, newly_skipped=skipped)
        return replace(
            each,
            newly_skipped=skipped,
            lag=group.lag.total_lag,
            seconds_behind=group.lag.age.seconds,
            rule=group.rule,
        )

    def _recent_trace(self, each: Connector) -> str:
        place = (each.service, each.name)
        if each.restarting:
            self._failures[place] = (self._now_s(), each.restarting[0].trace)
            return ""
        failed_s, trace = self._failures.get(place, (0.0, ""))
        if trace and each.state == RUNNING and not each.failed and self._now_s() < failed_s + RECOVERED_S:
            return trace
        self._failures.pop(place, None)
        return ""

    def _newly_skipped(self, each: Connector, total: float) -> float:
        now_s = time.monotonic()
        # A connector that is new to the console has begun at 0, unless the console itself is new.
        beginning = [(now_s, 0.0)] if self._has_read else []
        seen = self._skipped.setdefault((each.service, each.name), deque(beginning))
        if seen and seen[-1][1] > total:  # another service is active, and counts from 0
            seen.clear()
        if not seen or seen[-1][1] != total:
            seen.append((now_s, total))
        while len(seen) > 1 and seen[1][0] < now_s - RECENT_S:
            seen.popleft()
        return total - seen[0][1] if seen[-1][0] >= now_s - RECENT_S else 0.0

    def _forget_others(self, known: Collection[tuple[str, str]]) -> None:
        for gone in self._skipped.keys() - known:
            del self._skipped[gone]
        for gone in self._failures.keys() - known:
            self._failures.pop(gone, None)


def rate_figure(connector: Connector) -> str:
    """The name of the figure that is the rate of a connector."""
    return f"connector/{connector.service}/{connector.name}"


def connector_of(
    service: str,
    name: str,
    info: Mapping[str, Any],
    status: Mapping[str, Any],
    figures: Mapping[int, Figures],
    secrets: Collection[str],
) -> Connector:
    """From the answers of the REST API. Raises KeyError, TypeError and ValueError if they have another shape."""
    config = {str(key): str(value) for key, value in info["config"].items()}
    own = status["connector"]
    return Connector(
        service=service,
        name=name,
        kind=str(status.get("type") or info.get("type") or "unknown"),
        plugin=config.get("connector.class", ""),
        state=str(own["state"]),
        worker=str(own.get("worker_id", "")),
        trace=str(own.get("trace") or "")[:TRACE_CHARS_MAX],
        config=masked(config, secrets),
        tasks=tuple(
            Task(
                number=int(task["id"]),
                state=str(task["state"]),
                worker=str(task.get("worker_id", "")),
                trace=str(task.get("trace") or "")[:TRACE_CHARS_MAX],
                figures=figures.get(int(task["id"])),
            )
            for task in status["tasks"]
        ),
    )


def _is_silent(answers: Sequence[_Answer], key: str) -> bool:
    return any(answer.service.key == key and answer.service.problem for answer in answers)


# Odradek's services have their metrics at the same address. Apache Kafka's have them in JMX alone.

_SOURCES, _SINKS = "kafka.connect:type=source-task-metrics", "kafka.connect:type=sink-task-metrics"
_ERRORS, _FAILURES = "kafka.connect:type=task-error-metrics", "odradek.connect:type=Task,name=Failures"
_NAMES = {
    "source-record-poll-total": "read",
    "source-record-poll-rate": "read_per_s",
    "source-record-write-total": "written",
    "source-record-write-rate": "written_per_s",
    "sink-record-read-total": "read",
    "sink-record-read-rate": "read_per_s",
    "sink-record-send-total": "written",
    "sink-record-send-rate": "written_per_s",
    "total-records-skipped": "skipped",
    "deadletterqueue-produce-requests": "dead_letters",
    "Count": "failures",
}


def _figures(api: ConnectApi) -> dict[str, dict[int, Figures]]:
    """By connector and task; nothing from a service without metrics."""
    asked = [{"type": "read", "mbean": f"{bean},*"} for bean in (_SOURCES, _SINKS, _ERRORS, _FAILURES)]
    try:
        answers = api.ask("POST", "jolokia", body=asked)
    except (Silent, Declined):
        return {}
    found: dict[tuple[str, int], dict[str, float]] = {}
    for answer in answers if isinstance(answers, list) else []:
        beans = answer.get("value") if isinstance(answer, dict) else None
        for name, attributes in beans.items() if isinstance(beans, dict) else ():
            place = _place(str(name))
            if place is None or not isinstance(attributes, dict):
                continue
            found.setdefault(place, {}).update(
                {_NAMES[key]: float(value) for key, value in attributes.items() if key in _NAMES and _is_number(value)}
            )
    by_connector: dict[str, dict[int, Figures]] = {}
    for (connector, task), values in found.items():
        by_connector.setdefault(connector, {})[task] = Figures(**values)
    return by_connector


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(bean: str) -> tuple[str, int] | None:
    """The connector and the task in the name of an MBean."""
    try:
        properties = {key: unquoted(value) for key, value in parsed(bean).properties}
    except MalformedName:
        return None
    connector, task = properties.get("connector"), properties.get("task", "")
    return (connector, int(task)) if connector is not None and task.isdecimal() else None
