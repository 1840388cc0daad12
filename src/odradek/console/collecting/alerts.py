"""The alerts that the platform declares, evaluated with what the console reads: states, and what opened and closed.

The same conditions as the rules for Prometheus, and the same state machine as `odradek monitor`.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType

from odradek.console.collecting.alert_sources import LAG, UP, Scraper, Source
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.connectors.seen import Connect, connect_of
from odradek.monitor.alerts.alerts import Alerts, Change, Key, Notice
from odradek.monitor.alerts.conditions import Condition, NotUnderstood, Vector, parsed
from odradek.monitor.alerts.recording import Recording
from odradek.monitor.alerts.rules import Rule
from odradek.monitor.alerts.samples import Labels, Sample
from odradek.monitor.metric import Alert, Severity
from odradek.monitor.rules import alert_groups
from odradek.watch.watched_cluster import now_ms

EVERY_S = 5.0
# Nodes are asked less often, and never for more than this share of the time: they collect metrics on their event loops.
READ_EVERY_S, READ_SHARE_MAX = 10.0, 0.05
HISTORY_MAX = 200
INSTANCES_MAX = 50
# The source of conditions over all processes.
CLUSTER = "cluster"


class State(IntEnum):
    """From what needs a person to what does not."""

    FIRING = 0
    PENDING = 1
    QUIET = 2
    NOT_EVALUATED = 3

    @property
    def word(self) -> str:
        return {State.NOT_EVALUATED: "not evaluated"}.get(self, self.name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One series that fulfils the condition of an alert."""

    labels: Mapping[str, str]
    state: State
    since_ms: int
    value: float | None  # now; None if its process gives no answer
    summary: str
    action: Sequence[str] = ()  # what to do: text and commands in turns


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAlert:
    alert: Alert
    group: str
    condition: Condition | None
    state: State
    why_not: str = ""  # evaluated
    instances: tuple[Instance, ...] = ()
    worst: float | None = None  # of all series, the nearest to the threshold or furthest beyond it

    @property
    def is_critical(self) -> bool:
        return self.alert.severity is Severity.CRITICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """An alert that opened since the console started."""

    name: str
    labels: Mapping[str, str]
    opened_ms: int
    closed_ms: int | None
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAlerts:
    at_ms: int
    alerts: tuple[KnownAlert, ...] = ()
    past: tuple[Past, ...] = ()  # the newest first
    sources: tuple[Source, ...] = ()
    unread: tuple[str, ...] = ()  # nodes whose address is not known
    silent: frozenset[str] = frozenset()  # sources whose clients get no answer either

    @property
    def firing(self) -> list[KnownAlert]:
        return [each for each in self.alerts if each.state is State.FIRING]

    def named(self, name: str) -> KnownAlert | None:
        return next((each for each in self.alerts if each.alert.name == name), None)


class AlertReader:
    """`url_of` gives the address of a broker's HTTP. `time_factor` multiplies how long conditions must hold."""

    def __init__(
        self,
        url_of: Callable[[int], str | None],
        nodes: Mapping[int, str] = MappingProxyType({}),
        connect: Sequence[str] = (),
        *,
        time_factor: float = 1.0,
    ) -> None:
        self._url_of = url_of
        self._groups = {alert.name: (title, alert) for title, alerts in alert_groups() for alert in alerts}
        self._conditions: dict[str, Condition] = {}
        self._not_understood: dict[str, str] = {}
        for name, (_, alert) in self._groups.items():
            try:
                self._conditions[name] = parsed(alert.expression)
            except NotUnderstood as wrong:
                self._not_understood[name] = str(wrong)
        metrics = {name for condition in self._conditions.values() for name in condition.names} - {UP}
        self._scraper = Scraper(metrics, nodes, connect)
        self._recording = Recording(self._conditions.values())
        self._alerts = Alerts([self._rule(name, time_factor) for name in self._conditions])
        self._past: deque[Past] = deque(maxlen=HISTORY_MAX)
        self._last: KnownAlerts | None = None
        self._due_s = 0.0

    def read(self, snapshot: Snapshot) -> KnownAlerts | None:
        """None while no process with metrics was ever found."""
        if time.monotonic() < self._due_s and self._last is not None:
            return self._last
        began_s = time.monotonic()
        for broker in snapshot.brokers:
            self._scraper.learn(broker.broker_id, self._url_of(broker.broker_id))
        sources, samples = self._scraper.read(snapshot)
        self._due_s = began_s + max(READ_EVERY_S, self._scraper.took_s / READ_SHARE_MAX)
        if not sources:
            return None
        self._last = self.step(now_ms(), sources, samples, snapshot)
        return self._last

    def step(
        self,
        at_ms: int,
        sources: Sequence[Source],
        samples: Mapping[str, Sequence[Sample] | None],
        snapshot: Snapshot,
    ) -> KnownAlerts:
        self._recording.add(at_ms, samples)
        vectors = {name: each.expression.vector(self._recording) for name, each in self._conditions.items()}
        missing = _Missing(sources, snapshot)
        why_not = {name: missing.why_not(title, alert) for name, (title, alert) in self._groups.items()}
        why_not |= self._not_understood
        evaluated = {name: vector for name, vector in vectors.items() if not why_not[name]}
        for notice in self._alerts.step(at_ms, _by_source(evaluated, samples)):
            self._remember(notice)
        known = tuple(
            self._known(name, title, alert, vectors.get(name, {}), why_not[name])
            for name, (title, alert) in self._groups.items()
        )
        return KnownAlerts(
            at_ms=at_ms,
            alerts=tuple(sorted(known, key=lambda each: (each.state, not each.is_critical))),
            past=tuple(reversed(self._past)),
            sources=tuple(sources),
            unread=tuple(missing.unread),
            silent=_silent(sources, snapshot),
        )

    def _rule(self, name: str, time_factor: float) -> Rule:
        condition, (_, alert) = self._conditions[name], self._groups[name]
        at = {condition.comparison: condition.threshold}
        return Rule(
            name=name,
            metric=name,
            above=at.get(">"),
            below=at.get("<"),
            equal=at.get("=="),
            for_s=round(alert.for_seconds * time_factor),
        )

    def _remember(self, notice: Notice) -> None:
        opened = notice.alert
        past = Past(
            name=opened.key.rule,
            labels=dict(opened.key.labels),
            opened_ms=opened.opened_ms,
            closed_ms=notice.at_ms if notice.change is Change.CLOSED else None,
            value=opened.value,
        )
        same = next((each for each in self._past if replace(each, closed_ms=past.closed_ms) == past), None)
        if same is not None:
            self._past[self._past.index(same)] = past
        else:
            self._past.append(past)

    def _known(self, name: str, title: str, alert: Alert, vector: Vector, why_not: str) -> KnownAlert:
        condition = self._conditions.get(name)
        if why_not or condition is None:
            return KnownAlert(alert=alert, group=title, condition=condition, state=State.NOT_EVALUATED, why_not=why_not)
        opened = {each.key: each.opened_ms for each in self._alerts.opened if each.key.rule == name}
        pending = {key: at for key, at in self._alerts.crossed_ms.items() if key.rule == name and key not in opened}
        instances = [
            *(_instance(alert, key, State.FIRING, at, vector) for key, at in opened.items()),
            *(_instance(alert, key, State.PENDING, at, vector) for key, at in pending.items()),
        ]
        state = min((each.state for each in instances), default=State.QUIET)
        return KnownAlert(
            alert=alert,
            group=title,
            condition=condition,
            state=state,
            instances=tuple(instances[:INSTANCES_MAX]),
            worst=_worst(condition, vector),
        )


def _by_source(
    vectors: Mapping[str, Vector], samples: Mapping[str, Sequence[Sample] | None]
) -> dict[str, Sequence[Sample] | None]:
    """What conditions are on, as samples with the names of their alerts.

    The source is the process of a series, so that its alerts stay open while it gives no answer.
    """
    processes = [name for name in samples if name not in (UP, LAG)]
    found: dict[str, list[Sample]] = {CLUSTER: [], UP: [], LAG: [], **{name: [] for name in processes}}
    for name, vector in vectors.items():
        for labels, value in vector.items():
            instance = dict(labels).get("instance", "")
            source = UP if name == "TargetDown" else LAG if not instance and _is_of_group(labels) else instance
            found.setdefault(source or CLUSTER, []).append(Sample(name, labels, value))
    known: dict[str, Sequence[Sample] | None] = dict(found)
    known |= {name: None for name in samples if samples[name] is None}
    if processes and all(samples[name] is None for name in processes):
        known[CLUSTER] = None
    return known


def _is_of_group(labels: Labels) -> bool:
    return any(name == "consumer_group" for name, _ in labels)


def _instance(alert: Alert, key: Key, state: State, since_ms: int, vector: Vector) -> Instance:
    labels, value = dict(key.labels), vector.get(key.labels)
    return Instance(
        labels=labels,
        state=state,
        since_ms=since_ms,
        value=value,
        summary=filled(alert.summary, labels, value),
        action=action_for(alert, labels, value),
    )


def action_for(alert: Alert, labels: Mapping[str, str], value: float | None) -> Sequence[str]:
    """What to do: text and commands in turns. Commands can be copied into a shell, whatever the labels contain.

    Labels that are not known are words in capitals, as in docs/alerts.md.
    """
    names = set(_LABEL.findall(alert.action))
    known = {name: labels.get(name, name.upper()) for name in names}
    quoted = {name: shlex.quote(text) for name, text in known.items()}
    return [
        filled(piece, quoted if number % 2 else known, value) for number, piece in enumerate(alert.action.split("`"))
    ]


def _worst(condition: Condition, vector: Vector) -> float | None:
    known = [value for value in vector.values() if not math.isnan(value)]
    if not known:
        return None
    if condition.comparison == "==":
        return condition.threshold if condition.threshold in known else max(known)
    return max(known) if condition.comparison == ">" else min(known)


_LABEL = re.compile(r"\$labels\.(\w+)")
_FIELD = re.compile(r"\{\{\s*\$(?:labels\.(\w+)|(value))(?:\s*\|\s*(\w+))?\s*\}\}(B?)")


def filled(text: str, labels: Mapping[str, str], value: float | None) -> str:
    """A text with Prometheus' templates for labels and the value."""

    def field(found: re.Match[str]) -> str:
        if found[2]:
            if value is None:
                return "some" if found[3] == "humanize1024" else "unknown"
            return _readable(value, found[3]) + found[4]
        return "the cluster" if found[1] in ("job", "cluster") else labels.get(found[1], "") + found[4]

    return _FIELD.sub(field, text).replace("The cluster the cluster", "The cluster")


def _readable(value: float, form: str | None) -> str:
    """As Prometheus writes it: 10.24Gi for bytes, which the text continues with B; other numbers stay whole."""
    if form == "humanize1024":
        for prefix in ("", "Ki", "Mi", "Gi", "Ti"):
            if abs(value) < 1024 or prefix == "Ti":
                return f"{value:.4g}{prefix}"
            value /= 1024
    return f"{value:,.10g}{' s' if form == 'humanizeDuration' else ''}"


def _silent(sources: Sequence[Source], snapshot: Snapshot) -> frozenset[str]:
    """The names of dead brokers and of Connect services that do not answer: the verdict tells what is wrong there."""
    dead = {f"broker {each.broker_id}" for each in snapshot.brokers if not each.is_alive}
    services = connect_of(snapshot) or Connect()
    urls = {each.url for each in services.services if each.problem}
    return frozenset(dead | {each.name for each in sources if each.is_connect and each.shown_url.rstrip("/") in urls})


class _Missing:
    """Why alerts are not evaluated: processes that the console does not read."""

    def __init__(self, sources: Sequence[Source], snapshot: Snapshot) -> None:
        self._lag_is_known = snapshot.lag_is_known
        self._connect = any(each.is_connect for each in sources)
        read = {each.name for each in sources}
        self.unread = [
            f"broker {each.broker_id}" for each in snapshot.brokers if f"broker {each.broker_id}" not in read
        ]
        self._nodes = any(not each.is_connect for each in sources)
        voters = snapshot.quorum.voters if snapshot.quorum is not None else []
        brokers = {each.broker_id for each in snapshot.brokers}
        self._controllers = sorted(each.node_id for each in voters if each.node_id not in brokers)

    def why_not(self, title: str, alert: Alert) -> str:
        if alert.name == "MonitoredClusterUnreachable":
            return "it is about the process of `odradek monitor`"
        if title.startswith("Consumer lag"):
            return "" if self._lag_is_known else "the commits of the groups are still being read"
        if title.startswith("Clients"):
            return "producers and consumers export their metrics themselves, and the console does not read them"
        if title.startswith("Streams"):
            return "applications export their metrics themselves, and the console does not read them"
        if title.startswith("Connect"):
            return "" if self._connect else "no Connect service is known: start the console with `--connect URL`"
        if not self._nodes and alert.name != "TargetDown":
            return "the metrics of no broker are read: start the console with `--node-http ID=URL`"
        if "kafka_controller" in alert.expression and (self._controllers or self.unread):
            return f"the active controller may be {self._unread_controllers()}, whose metrics are not read"
        return ""

    def _unread_controllers(self) -> str:
        names = [f"node {each}" for each in self._controllers] + self.unread
        return names[0] if len(names) == 1 else f"one of {', '.join(names[:5])}"


def instances(alerts: Sequence[KnownAlert], state: State) -> Iterator[tuple[KnownAlert, Instance]]:
    for each in alerts:
        for one in each.instances:
            if one.state is state:
                yield each, one
