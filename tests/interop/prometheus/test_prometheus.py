"""A real Prometheus scrapes a cluster with traffic: every panel has data, and each alert fires when it is caused.

The alerts hold for a fiftieth of their time (`odradek metrics rules --time-factor`). The table of what fired, and after
how long, is written to bench/out/interop/alerts.md.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from interop.prometheus.observed_cluster import (
    CLIENTS,
    CONNECT,
    MONITOR,
    ODRADEK,
    STREAMS,
    ObservedCluster,
    Processes,
)
from odradek.monitor.dashboard import panels
from odradek.monitor.rules import alert_groups, alert_rules
from support.broker_process import free_port
from support.foreign_programs import OUT
from support.prometheus_process import MISSING, Prometheus, program, wait_for

pytestmark = [
    pytest.mark.skipif(not program("prometheus"), reason=MISSING),
    pytest.mark.timeout(900),
]

TIME_FACTOR = 0.02
FIRES_WITHIN_S = 150.0
TARGETS = 8
FOR_S = {alert.name: alert.for_seconds for _, alerts in alert_groups() for alert in alerts}
# Alerts whose condition this test cannot bring about, and why.
NOT_CAUSED = {
    "MetadataLag": "a node applies committed records at once unless its event loop is stuck, and then it cannot answer",
}


@dataclass
class Scene:
    cluster: ObservedCluster
    processes: Processes
    prometheus: Prometheus
    streams: list[str]
    producer: Producer
    admin: AdminClient
    fired: dict[str, tuple[str, float]] = field(default_factory=dict)

    def expect(self, cause: str, *alerts: str) -> None:
        """Waits for all of these alerts."""
        began = time.monotonic()

        def missing() -> set[str]:
            for name in self.prometheus.firing() & set(alerts):
                self.fired.setdefault(name, (cause, time.monotonic() - began))
            return set(alerts) - set(self.fired)

        try:
            wait_for("all alerts fire", lambda: not missing(), FIRES_WITHIN_S)
        except AssertionError:
            raise AssertionError(f"{sorted(missing())} did not fire because of: {cause}") from None

    def await_quiet(self, *alerts: str) -> None:
        wait_for(f"{alerts} are over", lambda: not self.prometheus.firing() & set(alerts), FIRES_WITHIN_S)

    def send_events(self, *values: str, age_s: float = 0) -> None:
        for value in values:
            self.producer.produce("events", value, timestamp=int((time.time() - age_s) * 1000))
        self.producer.flush(60)


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
    processes.start("streams", run_streams, "running after", 200)
    targets = {
        "odradek": list(cluster.http.values()),
        "monitor": [lag],
        "clients": [clients],
        "streams": [streams],
        "connect": [_connect(processes, cluster, number).removeprefix("http://") for number in (1, 2)],
    }
    with Prometheus(folder / "prometheus", targets, alert_rules(TIME_FACTOR)) as prometheus:
        yield Scene(cluster, processes, prometheus, run_streams, Producer(config), admin)


def _connect(processes: Processes, cluster: ObservedCluster, number: int) -> str:
    """The URL of a new connect service. The first one is active, the second stands by."""
    file = processes.folder / f"connect-{number}.url"
    processes.start(f"connect-{number}", [*CONNECT, cluster.bootstrap, str(file), "observed"], "")
    wait_for("the connect service is ready", file.exists, 60)
    url = file.read_text()
    if number == 1:
        wait_for("it is active", lambda: "active" in httpx.get(f"{url}/health").text, 60)
        lines = processes.folder / "lines"
        lines.write_text("1\n")
        source = {"connector.class": "files-source", "path": str(lines), "topic": "lines", "errors.tolerance": "all"}
        sink = {"connector.class": "files-sink", "topics": "lines", "path": str(processes.folder / "copies")}
        for name, config in (("lines", source), ("copies", sink)):
            httpx.post(f"{url}/connectors", json={"name": name, "config": config}, timeout=60).raise_for_status()
    return url


def test_every_process_is_scraped_and_its_text_is_valid(scene):
    scene.send_events(*(json.dumps({"n": n}) for n in range(3)))

    def all_are_up() -> bool:
        targets = scene.prometheus.targets()  # none yet when it has just started
        return len(targets) >= TARGETS and all("up " in each for each in targets.values())

    wait_for("all targets are up", all_are_up, 60)
    for url in scene.prometheus.targets():
        for parse, accept in ((parse_text, "text/plain"), (parse_open_metrics, "application/openmetrics-text")):
            assert list(parse(httpx.get(url, headers={"accept": accept}).text))


def test_every_panel_of_the_dashboard_has_data(scene):
    def without_data() -> list[str]:
        return [
            panel.title
            for _, row in panels()
            for panel in row
            if not scene.prometheus.query(
                panel.query.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
            )
        ]

    scene.send_events("no JSON", json.dumps({"n": 1}))
    try:
        wait_for("every panel has data", lambda: not without_data(), 60)
    except AssertionError:
        raise AssertionError(f"no data: {without_data()}") from None


def test_dead_letters_and_slow_query(scene):
    scene.send_events("no JSON")
    scene.expect("a record that cannot be parsed", "StreamsDeadLetters")
    done = threading.Event()

    def feed() -> None:
        while not done.wait(0.3):
            scene.send_events(json.dumps({"n": 1}), age_s=120)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        scene.expect("a function that is slower than the input", "StreamsQueryBehind", "StreamsQueryCannotKeepUp")
    finally:
        done.set()
        feeding.join()


def test_connectors_that_skip_records_or_fail(scene):
    folder = scene.processes.folder
    with (folder / "lines").open("a") as lines:
        lines.write('{"broken\n2\n')
    scene.expect("a connector that skips a record", "ConnectorRecordsSkipped")
    strict = {"connector.class": "files-source", "path": str(folder / "lines"), "topic": "strict-lines"}
    strict |= {"restart.attempts.max": "6", "restart.backoff.ms": "1000", "restart.backoff.max.ms": "1000"}
    url = (folder / "connect-1.url").read_text()
    document = {"name": "strict", "config": strict}
    httpx.post(f"{url}/connectors", json=document, timeout=60).raise_for_status()
    scene.expect("a task that fails whenever it is started", "ConnectorTaskRestarts", "ConnectorTaskFailed")


def test_connect_service_that_is_killed(scene):
    scene.processes.kill("connect-1")
    scene.expect("a killed connect service, before another takes over", "NoActiveConnectService")


def test_application_that_is_restarted_again_and_again(scene):
    for _ in range(4):
        scene.processes.kill("streams")
        scene.processes.start("streams", scene.streams, "metrics on")
        time.sleep(5)  # Prometheus must see each life
    scene.expect("an application that dies and is started again", "StreamsApplicationRestarts")


def test_cluster_that_cannot_be_reached(scene):
    scene.expect("the monitor's cluster does not answer", "MonitoredClusterUnreachable")


def test_file_descriptors(scene):
    pid = scene.cluster.pid(1)
    open_files = len(os.listdir(f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_files + 5, before[1]))
    try:
        scene.expect("a process near its limit of open files", "FileDescriptorsRunOut")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    scene.await_quiet("FileDescriptorsRunOut")


def test_groups_that_stop_or_fall_behind(scene):
    # The slow consumer takes one record a second of fifty, and commits each.
    scene.expect("a group that commits slower than records arrive", "ConsumerGroupFallsBehind")
    group = "stuck"
    command = [*ODRADEK, "consume", "orders", "-g", group, "-b", scene.cluster.bootstrap, "-n", "20"]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    scene.expect("a group whose consumer has stopped", "ConsumerGroupStuck")


def test_dead_broker(scene):
    scene.cluster.kill(3)
    scene.expect(
        "a dead broker",
        "TargetDown",
        "UnderReplicatedPartitions",
        "UnderMinIsrPartitions",
        "FencedBrokers",
        "OfflinePartitions",
        "ProduceRequestsFail",
        "RecordsNotDelivered",
    )
    scene.cluster.begin(3)
    scene.await_quiet("TargetDown", "FencedBrokers", "UnderReplicatedPartitions", "OfflinePartitions")


def test_full_disk(scene):
    if not scene.cluster.small_disk:
        pytest.skip("a small file system needs root")
    scene.cluster.fill_disk()
    try:
        scene.expect("a full disk", "DiskNearlyFull", "DiskFull", "OfflineReplicas", "StorageErrors")
    finally:
        scene.cluster.empty_disk()
    scene.await_quiet("DiskFull", "OfflineReplicas")


def test_overloaded_broker(scene):
    """The machine gives the leader no CPU most of the time."""
    pid = scene.cluster.pid(_partition(scene, "flushed").leader)
    done = threading.Event()

    def produce() -> None:
        while not done.wait(0.002):
            with suppress(BufferError):
                scene.producer.produce("flushed", b"x" * 100)
            scene.producer.poll(0)

    def hold_up() -> None:
        while not done.is_set():
            os.kill(pid, signal.SIGSTOP)
            done.wait(1.3)
            os.kill(pid, signal.SIGCONT)
            done.wait(0.3)

    busy = [threading.Thread(target=produce), threading.Thread(target=hold_up)]
    for thread in busy:
        thread.start()
    try:
        scene.expect("a broker that gets no CPU", "EventLoopSlow", "ProduceSlow", "FlushSlow")
    finally:
        done.set()
        for thread in busy:
            thread.join()
    scene.producer.flush(60)


def test_busy_broker(scene):
    """Small requests, as many as the event loop can handle."""
    os.setpriority(os.PRIO_PROCESS, scene.cluster.pid(1), -15 if os.geteuid() == 0 else 0)
    busy = NewTopic("busy", 1, replica_assignment=[[1]])
    scene.admin.create_topics([busy])["busy"].result(30)
    load = (
        "import sys\n"
        "from confluent_kafka import Producer\n"
        "one_record = {'batch.num.messages': 1, 'linger.ms': 0, 'acks': 1, 'log_level': 0}\n"
        "producer = Producer({'bootstrap.servers': sys.argv[1], **one_record})\n"
        "while True:\n"
        "    try:\n"
        "        producer.produce('busy', b'x')\n"
        "        producer.poll(0)\n"
        "    except BufferError:\n"
        "        producer.poll(0.01)\n"
    )
    names = [f"load-{number}" for number in range(3)]
    for name in names:
        scene.processes.start(name, [sys.executable, "-c", load, scene.cluster.bootstrap], "")
    try:
        scene.expect("more requests than the broker can handle", "BrokerOverloaded")
    finally:
        for name in names:
            scene.processes.kill(name)


def test_unclean_election_and_lost_majority(scene):
    cluster = scene.cluster
    made = scene.admin.create_topics([NewTopic("risky", 1, replica_assignment=[[2, 3]])])
    made["risky"].result(30)
    cluster.kill(3)
    wait_for("2 is the only replica in sync", lambda: _partition(scene, "risky").isrs == [2], 60)
    cluster.kill(2)
    scene.expect("two of three controllers dead", "NoMetadataLeader", "NoActiveController")
    cluster.begin(3)
    wait_for("risky has no leader", lambda: _partition(scene, "risky").leader == -1, 60)
    cluster.odradek("cluster", "elect", "--unclean", "risky:0", "--yes")
    scene.expect("an election that lost records", "UncleanElections")
    cluster.begin(2)


def _partition(scene: Scene, topic: str) -> PartitionMetadata:
    return scene.admin.list_topics(topic, timeout=30).topics[topic].partitions[0]


def test_every_alert_was_caused(scene):
    """Last. Writes the table for docs/metrics.md."""
    lines = ["| alert | cause | fired after | of that, the condition must hold |", "|---|---|---:|---:|"]
    for name, (cause, after_s) in scene.fired.items():
        lines.append(f"| {name} | {cause} | {after_s:.0f} s | {FOR_S[name] * TIME_FACTOR:.1f} s |")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "alerts.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    missing = set(FOR_S) - set(scene.fired) - set(NOT_CAUSED)
    if not scene.cluster.small_disk:
        missing -= {"DiskNearlyFull", "DiskFull", "OfflineReplicas", "StorageErrors"}
    assert not missing
