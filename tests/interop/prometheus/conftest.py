"""The scene of these tests: three nodes and everything else that Odradek can run, scraped by Prometheus."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from interop.prometheus.observed_cluster import ODRADEK, ObservedCluster, Processes
from interop.prometheus.programs import CLIENTS, CONNECT, MONITOR, STREAMS
from odradek.monitor.rules import alert_rules
from support.broker_process import free_port
from support.prometheus_process import Firing, Prometheus, wait_for

TIME_FACTOR = 0.02
WITHIN_S = 150.0
SPARK_STARTS_WITHIN_S = 600.0
# Percentiles favour recent values, but slow requests count for minutes.
QUIET_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    cause: str
    # From the cause until Prometheus saw the condition. The alert fires when the condition has held long enough.
    after_s: float


@dataclass
class Scene:
    cluster: ObservedCluster
    processes: Processes
    prometheus: Prometheus
    streams: list[str]
    producer: Producer
    admin: AdminClient
    began: float = field(default_factory=time.time)
    fired: dict[str, Fired] = field(default_factory=dict)

    def expect(
        self, cause: str, *alerts: str, since: float | None = None, within_s: float = WITHIN_S, **labels: str
    ) -> None:
        """Waits for all of these alerts. Their conditions are new `since` this time; default: now."""
        began = time.time() if since is None else since
        missing = set(alerts)

        def look() -> bool:
            for alert in self._firing(alerts, labels):
                if alert.since >= began:
                    self.fired.setdefault(alert.name, Fired(cause=cause, after_s=alert.since - began))
                    missing.discard(alert.name)
            return not missing

        try:
            wait_for("all alerts fire", look, within_s)
        except AssertionError:
            raise AssertionError(f"{sorted(missing)} did not fire because of: {cause}") from None

    def await_quiet(self, *alerts: str, **labels: str) -> None:
        wait_for(f"{alerts} are over", lambda: not self._firing(alerts, labels), QUIET_WITHIN_S)

    def _firing(self, alerts: Sequence[str], labels: Mapping[str, str]) -> list[Firing]:
        return [
            alert
            for alert in self.prometheus.firing()
            if alert.name in alerts and labels.items() <= alert.labels.items()
        ]

    def send_events(self, *values: str, age_s: float = 0) -> None:
        for value in values:
            self.producer.produce("events", value, timestamp=int((time.time() - age_s) * 1000))
        self.producer.flush(60)

    def create(self, topic: str, *replicas: list[int]) -> None:
        """With the brokers of each partition."""
        self.admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=list(replicas))])[topic].result(30)

    def leads(self, node_id: int, topic: str) -> bool:
        """Whether it leads all partitions of a topic that only it has."""
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        return all(each.leader == node_id for each in partitions if each.replicas == [node_id])

    def partition(self, topic: str) -> PartitionMetadata:
        return self.admin.list_topics(topic, timeout=30).topics[topic].partitions[0]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("observed")
    processes = Processes(folder)
    cluster = ObservedCluster(folder, processes)
    try:
        with _started(folder, processes, cluster) as scene:
            yield scene
    finally:
        processes.stop_all()
        cluster.unmount()


@contextmanager
def _started(folder: Path, processes: Processes, cluster: ObservedCluster) -> Iterator[Scene]:
    cluster.begin(1, 2, 3)
    for topic, replicas, settings in (
        ("orders", 3, ["min.insync.replicas=1"]),
        ("strict", 3, ["min.insync.replicas=3"]),
        ("events", 3, []),
    ):
        configs = [part for setting in settings for part in ("-c", setting)]
        cluster.odradek("topic", "create", topic, "-p", "1", "-r", str(replicas), *configs)
    cluster.odradek("topic", "create", "fragile", "-p", "6", "-r", "1")
    cluster.odradek("topic", "create", "lines", "strict-lines", "-p", "1", "-r", "3")
    config = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 0}
    admin = AdminClient(config)
    # Not on the third node, whose disk is in memory.
    flushed = NewTopic("flushed", 1, replica_assignment=[[1, 2]], config={"flush.messages": "1"})
    admin.create_topics([flushed])["flushed"].result(30)
    lag, clients, streams = (f"127.0.0.1:{free_port()}" for _ in range(3))
    (folder / "monitor.toml").write_text(
        MONITOR.format(address=lag, servers=json.dumps(cluster.bootstrap.split(",")), nowhere=free_port())
    )
    (folder / "clients.py").write_text(CLIENTS)
    (folder / "slow.py").write_text(STREAMS)
    processes.start("monitor", [*ODRADEK, "monitor", "--config", "monitor.toml"], "Metrics: ")
    command = [sys.executable, "clients.py", cluster.bootstrap, clients.rpartition(":")[2]]
    processes.start("clients", command, "running")
    run_streams = [*ODRADEK, "streams", "run", "slow.py", "-b", cluster.bootstrap, "--metrics", streams]
    processes.start("streams", run_streams, "running after", SPARK_STARTS_WITHIN_S)
    serve_views = [*ODRADEK, "streams", "views", "slow.py", "-b", cluster.bootstrap, "--port", "0"]
    views = processes.start("views", serve_views, "metrics on http://(.*)/metrics")
    targets = {
        "odradek": list(cluster.http.values()),
        "monitor": [lag],
        "clients": [clients],
        "streams": [streams, views],
        "connect": [connect_service(processes, cluster, number).removeprefix("http://") for number in (1, 2)],
    }
    with Prometheus(folder / "prometheus", targets, alert_rules(TIME_FACTOR)) as prometheus:
        yield Scene(cluster, processes, prometheus, run_streams, Producer(config), admin)


def connect_service(processes: Processes, cluster: ObservedCluster, number: int) -> str:
    """The URL of a connect service, at its former port if it has run before. The first one is active at first."""
    file = processes.folder / f"connect-{number}.url"
    former = [file.read_text().rpartition(":")[2]] if file.exists() else []
    file.unlink(missing_ok=True)
    processes.start(f"connect-{number}", [*CONNECT, cluster.bootstrap, str(file), "observed", *former], "")
    wait_for("the connect service is ready", file.exists, 60)
    url = file.read_text()
    if number == 1 and not former:
        wait_for("it is active", lambda: "active" in httpx.get(f"{url}/health").text, 60)
        lines = processes.folder / "lines"
        lines.write_text("1\n")
        source = {"connector.class": "files-source", "path": str(lines), "topic": "lines", "errors.tolerance": "all"}
        sink = {"connector.class": "files-sink", "topics": "lines", "path": str(processes.folder / "copies")}
        for name, config in (("lines", source), ("copies", sink)):
            httpx.post(f"{url}/connectors", json={"name": name, "config": config}, timeout=60).raise_for_status()
    return url
