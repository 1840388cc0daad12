"""The thread that evaluates alerts: reads samples, keeps the state on disk, and delivers messages.

A message is on disk before it is sent, and removed after it was delivered. So a crash in between sends it again, with
the same id: at least once. An alert that is open on disk is not opened again.
"""

from __future__ import annotations

import http.client
import logging
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odradek.base.limits import alert_scrape_bytes_max
from odradek.monitor.alerts.alerts import Alerts, Notice
from odradek.monitor.alerts.outbox import Message, Outbox
from odradek.monitor.alerts.rules import Rule
from odradek.monitor.alerts.samples import Sample, read_samples
from odradek.monitor.exposition import TEXT, exposition
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry, Snapshot
from odradek.watch.alert_state import read_state, write_state
from odradek.watch.lag_metrics import GROUP_METRICS
from odradek.watch.receivers import NotDelivered, Receiver
from odradek.watch.watched_cluster import WatchedCluster, now_ms

logger = logging.getLogger(__name__)

EVERY_S = 15
SCRAPE_TIMEOUT_S = 5.0
OWN = "monitor"
# Whether a source could be read, as in Prometheus.
UP = "up"

Samples = Sequence[Sample] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    rules: tuple[Rule, ...] = ()
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)  # URLs by name
    every_s: int = EVERY_S
    state: Path = Path("odradek-alerts.json")


class Alerting:
    """Raises BadState if the file of the state cannot be used."""

    def __init__(self, settings: AlertSettings, registry: Registry, clusters: Sequence[WatchedCluster]) -> None:
        self._settings = settings
        self._registry = registry
        self._clusters = clusters
        self._names = {rule.metric for rule in settings.rules}
        opened, messages = read_state(settings.state)
        self._alerts = Alerts(settings.rules, opened)
        self._outbox = Outbox(messages)
        self._outbox.forget({message.receiver for message in messages} - settings.receivers.keys())
        self._down: set[str] = set()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        for work in (self._evaluate, self._deliver):
            thread = threading.Thread(target=work, name="odradek-alerts", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        self._changed.set()
        for thread in self._threads:
            thread.join()

    # Evaluation

    def _evaluate(self) -> None:
        while not self._stopping.is_set():
            self.step(self._sources())
            self._stopping.wait(self._settings.every_s)

    def step(self, sources: Mapping[str, Samples]) -> None:
        with self._lock:
            notices = self._alerts.step(now_ms(), sources)
            if not notices:
                return
            for notice in notices:
                logger.warning("alert %s: %s", notice.change.value, _told(notice))
            if dropped := self._outbox.add(notices):
                logger.error("%d undelivered messages were dropped: too many wait for their receivers", dropped)
            self._save()
        self._changed.set()

    def _sources(self) -> dict[str, Samples]:
        found: dict[str, Samples] = {name: self._scraped(name, url) for name, url in self._settings.targets.items()}
        own, of_clusters = self._own_samples()
        for cluster in self._clusters:
            is_known = cluster.is_ready and cluster.problem is None
            instance = f"{OWN}/{cluster.name}"
            found[instance] = of_clusters.get(cluster.name, []) if is_known else None
            # A source of its own: an alert must neither open nor close while the monitor starts.
            found[f"{OWN}/{UP}/{cluster.name}"] = None if cluster.is_starting else [_up(instance, is_known)]
        ups = [_up(name, found[name] is not None) for name in self._settings.targets]
        found[OWN] = [*own, *ups]
        return found

    def _own_samples(self) -> tuple[list[Sample], dict[str, list[Sample]]]:
        """The samples of this process, and apart from them the lag of each cluster, which may be out of date."""
        lag, other = _split(self._registry.snapshot())
        own = list(read_samples("".join(exposition(other, TEXT)), self._names))
        by_cluster: dict[str, list[Sample]] = {}
        for cluster, readings in lag.items():
            by_cluster[cluster] = list(read_samples("".join(exposition(readings, TEXT)), self._names))
        return own, by_cluster

    def _scraped(self, name: str, url: str) -> Samples:
        try:
            with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT_S) as answer:  # noqa: S310 - http and https only
                text = answer.read(alert_scrape_bytes_max).decode(errors="replace")
        except (OSError, http.client.HTTPException) as failed:
            if name not in self._down:
                logger.warning("cannot scrape %s at %s, retrying: %s", name, url, failed)
            self._down.add(name)
            return None
        self._down.discard(name)
        # The instance tells apart the same series of several targets.
        return [
            Sample(each.name, tuple(sorted({**dict(each.labels), "instance": name}.items())), each.value)
            for each in read_samples(text, self._names)
        ]

    # Delivery

    def _deliver(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            with self._lock:
                due = self._outbox.due(now_ms())
            for message in due:
                self._send(message)
            if not due:
                self._changed.wait(1.0)

    def _send(self, message: Message) -> None:
        try:
            self._settings.receivers[message.receiver].deliver(message.receiver, message.notice)
        except NotDelivered as failed:
            if message.failures == 0:
                logger.warning("alert %s was not delivered, retrying: %s", message.notice.id, failed)
            with self._lock:
                self._outbox.failed(message, now_ms())
            return
        with self._lock:
            self._outbox.delivered(message)
            self._save()

    def _save(self) -> None:
        try:
            write_state(self._settings.state, self._alerts.opened, self._outbox.waiting)
        except OSError:
            # The message is sent all the same: a full disk must not silence alerts.
            logger.exception("cannot write %s, a restart may repeat messages", self._settings.state)


def _up(instance: str, is_up: bool) -> Sample:
    return Sample(UP, (("instance", instance),), float(is_up))


def _told(notice: Notice) -> str:
    """`GroupStuck, cluster=local consumer_group=billing: burrow_kafka_consumer_status > 2, and is 3`."""
    labels = " ".join(f"{name}={value}" for name, value in notice.alert.key.labels)
    now = "is gone" if notice.value is None else f"is {notice.value:g}"
    return f"{notice.alert.key.rule}, {labels}: {notice.alert.condition}, and {now}"


def _split(snapshot: Snapshot) -> tuple[dict[str, Snapshot], Snapshot]:
    lag: dict[str, Snapshot] = {}
    other: Snapshot = []
    lag_metrics: frozenset[Metric] = GROUP_METRICS
    for reading in snapshot:
        if reading.metric in lag_metrics:
            lag.setdefault(reading.labels[0], []).append(reading)
        else:
            other.append(reading)
    return lag, other
