"""A real Prometheus scrapes a cluster with traffic: every panel has data, and each alert fires when it is caused.

The alerts must hold for a fiftieth of their time (`odradek metrics rules --time-factor`). The table of what fired, and
after how long, is written to bench/out/interop/alerts.md.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest
from confluent_kafka import Producer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from interop.prometheus.conftest import connect_service
from interop.prometheus.observed_cluster import ODRADEK
from odradek.base.ids import ZERO_UUID
from odradek.monitor.dashboard import panels
from odradek.monitor.rules import alert_groups
from odradek.protocol.messages.p71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.protocol.messages.p72_push_telemetry import PushTelemetryRequest
from support.foreign_programs import OUT
from support.hanging import hang
from support.postgres import Postgres, has_postgres
from support.prometheus_process import MISSING, program, wait_for
from support.pushed_metrics import gauge, payload, point
from support.scraping import scrape
from traps.wire import Wire, now_ms

pytestmark = [
    pytest.mark.skipif(not program("prometheus"), reason=MISSING),
    pytest.mark.timeout(1200),
]

TARGETS = 9
# The slot of a connector exists only with PostgreSQL.
OF_POSTGRES = "replicationslot"
SLOT_ALERT = "ReplicationSlotHoldsLog"
SLOT_HOLDS_BYTES = 11 * 10**9
HANGING_FOR_MS = 30 * 60 * 1000
SLOW_FSYNC_S = 1.5
# The idle time of an event loop is averaged over a minute, and averages follow slowly.
OVERLOADED_WITHIN_S = 400.0


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` in a thread; it ends when its event is set."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_every_process_is_scraped_and_its_text_is_valid(scene):
    scene.send_events(*(json.dumps({"n": n}) for n in range(3)))

    def all_are_up() -> bool:
        targets = scene.prometheus.targets()  # none yet when it has just started
        return len(targets) >= TARGETS and all("up " in each for each in targets.values())

    wait_for("all targets are up", all_are_up, 60)
    for url in scene.prometheus.targets():
        for parse, accept in ((parse_text, "text/plain"), (parse_open_metrics, "application/openmetrics-text")):
            assert list(parse(httpx.get(url, headers={"accept": accept}, timeout=30).text))


def test_dead_letters_and_slow_query(scene):
    scene.send_events("no JSON")
    scene.expect("a record that cannot be parsed", "StreamsDeadLetters")

    def feed(done: threading.Event) -> None:
        while not done.wait(0.3):
            scene.send_events(json.dumps({"n": 1}), age_s=120)

    with meanwhile(feed):
        scene.expect("a function that is slower than its input", "StreamsQueryBehind", "StreamsQueryCannotKeepUp")


@pytest.fixture(scope="module")
def postgres():
    with Postgres.started() as postgres:
        yield postgres


def test_slot_of_a_paused_connector(scene, postgres):
    """Eleven gigabytes of changes would take long: instead, PostgreSQL continues its log so much further on."""
    config = {
        "connector.class": "postgres-cdc",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.dbname": postgres.new_database().rpartition("/")[2],
        "topic.prefix": "shop",
        "slot.name": "paused",
    }
    url = (scene.processes.folder / "connect-1.url").read_text()
    httpx.post(f"{url}/connectors", json={"name": "paused", "config": config}, timeout=60).raise_for_status()
    held = f'odradek_connect_{OF_POSTGRES}_retainedbytes{{connector="paused"}}'
    wait_for("Prometheus has the slot", lambda: scene.prometheus.query(held), 120)
    httpx.put(f"{url}/connectors/paused/pause", timeout=60).raise_for_status()
    began = time.time()
    postgres.skip_log(SLOT_HOLDS_BYTES)
    scene.expect("a paused connector, and 11 GB of PostgreSQL's log", SLOT_ALERT, since=began)


def test_every_panel_of_the_dashboard_has_data(scene):
    def without_data() -> list[str]:
        return [
            panel.title
            for _, row in panels()
            for panel in row
            if (SLOT_ALERT in scene.fired or OF_POSTGRES not in panel.title)
            and not scene.prometheus.query(
                panel.query.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
            )
        ]

    try:
        wait_for("every panel has data", lambda: not without_data(), 120)
    except AssertionError:
        raise AssertionError(f"no data: {without_data()}") from None


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
    began = time.time()
    scene.processes.kill("connect-1")
    scene.expect("a killed connect service, before another takes over", "NoActiveConnectService", since=began)
    connect_service(scene.processes, scene.cluster, 1)


def test_application_that_is_restarted_again_and_again(scene):
    began = time.time()
    query = "odradek_streams_application_restarts_total"
    before = int(scene.prometheus.query(query)[0]["value"][1])
    for restarts in range(before + 1, before + 5):
        scene.processes.kill("streams")
        scene.processes.start("streams", scene.streams, "metrics on")
        seen = f"{query} == {restarts}"
        wait_for("Prometheus has seen this life", lambda seen=seen: scene.prometheus.query(seen), 60)
    scene.expect("an application that is killed and started four times", "StreamsApplicationRestarts", since=began)


def test_cluster_that_cannot_be_reached(scene):
    cause = "the monitor starts, and its cluster does not answer"
    scene.expect(cause, "MonitoredClusterUnreachable", since=scene.began, cluster="dead")


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
    behind = {"since": scene.began, "consumer_group": "slow"}
    scene.expect("a group that commits slower than records arrive", "ConsumerGroupFallsBehind", **behind)
    command = [*ODRADEK, "consume", "orders", "-g", "stuck", "-b", scene.cluster.bootstrap, "-n", "20"]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    scene.expect("a group whose consumer has stopped", "ConsumerGroupStuck", consumer_group="stuck")


def test_clients_that_push_too_many_metrics(scene):
    node = scene.cluster.nodes[1].clients
    scene.cluster.odradek("config", "set", "client-metrics", "all", "metrics=*", "interval.ms=1000")

    def push(done: threading.Event) -> None:
        """More series at each push than a broker keeps of one client."""
        body = payload(gauge("org.apache.kafka.many", *(point(1.0, number=number) for number in range(1100))))
        with Wire(node.port) as wire:
            while True:  # until this broker has the subscription
                granted = wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), 0)
                if granted.requested_metrics:
                    break
            ids = {"client_instance_id": granted.client_instance_id, "subscription_id": granted.subscription_id}
            while not done.wait(1.1):
                wire.ask(PushTelemetryRequest(**ids, metrics=body), 0)

    try:
        with meanwhile(push):
            scene.expect("a client that pushes more than 1,000 series", "ClientTelemetryDropped")
    finally:
        scene.cluster.odradek("config", "unset", "client-metrics", "all", "metrics", "interval.ms")


def test_hanging_transaction(scene):
    leader = scene.cluster.nodes[scene.partition("strict").leader].clients
    hang(leader.port, "strict", b"x", timestamp=now_ms() - HANGING_FOR_MS)
    scene.expect("a transaction that no coordinator knows, begun half an hour ago", "LateTransactions")


def test_dead_broker(scene):
    """It also leads the only replica of a partition with an open transaction, which times out."""
    scene.create("alone", [3])
    settings = {"transactional.id": "unended", "transaction.timeout.ms": 1000, "log_level": 0}
    unended = Producer({"bootstrap.servers": scene.cluster.bootstrap, **settings})
    unended.init_transactions(60)
    unended.begin_transaction()
    unended.produce("alone", b"x")
    assert unended.flush(60) == 0
    began = time.time()
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
        "TransactionMarkersStuck",
        since=began,
    )
    began = time.time()
    scene.cluster.begin(3)
    cause = "a killed broker is back that had the only replica of partitions"
    scene.expect(cause, "UncleanElections", since=began)
    scene.await_quiet("TargetDown", "FencedBrokers", "UnderReplicatedPartitions", "OfflinePartitions")


def test_node_that_does_not_reach_the_others(scene):
    """It misses the metadata of a topic with many partitions."""
    [active] = scene.prometheus.query("kafka_controller_kafkacontroller_activecontrollercount == 1")
    leader = next(node_id for node_id, address in scene.cluster.http.items() if address == active["metric"]["instance"])
    lonely = 2 if leader == 1 else 1
    began = time.time()
    scene.cluster.cut_off(lonely)
    try:
        with Wire(scene.cluster.nodes[leader].clients.port) as wire:
            wire.create_topic("many", partitions=150)
        scene.expect("a node that does not reach the others", "MetadataLag", since=began)
    finally:
        scene.cluster.connect(lonely)
    scene.await_quiet("MetadataLag", "FencedBrokers", "UnderReplicatedPartitions", "OfflinePartitions")


def test_full_disk(scene):
    if not scene.cluster.small_disk:
        pytest.skip("a small file system needs root")
    began = time.time()
    scene.cluster.fill_disk()
    try:
        alerts = ("DiskNearlyFull", "DiskFull", "OfflineReplicas", "StorageErrors")
        scene.expect("a full disk", *alerts, since=began)
    finally:
        scene.cluster.empty_disk()
    scene.await_quiet("DiskFull", "OfflineReplicas")


def test_slow_disk(scene):
    victim = scene.partition("flushed").leader
    with meanwhile(flushes_of(scene)):
        scene.await_quiet("FlushSlow", "ProduceSlow")
        began = time.time()
        scene.cluster.delay_fsyncs(victim, SLOW_FSYNC_S)
        try:
            instance = scene.cluster.http[victim]
            scene.expect("a disk whose fsync takes 1.5 s", "FlushSlow", "ProduceSlow", since=began, instance=instance)
        finally:
            scene.cluster.delay_fsyncs(victim, 0)
    scene.producer.flush(60)


def test_broker_without_cpu(scene):
    """The machine gives the leader no CPU most of the time."""
    victim = scene.partition("flushed").leader
    pid, instance = scene.cluster.pid(victim), scene.cluster.http[victim]

    def hold_up(done: threading.Event) -> None:
        while not done.is_set():
            os.kill(pid, signal.SIGSTOP)
            done.wait(1.3)
            os.kill(pid, signal.SIGCONT)
            done.wait(0.3)

    with meanwhile(flushes_of(scene)):
        scene.await_quiet("EventLoopSlow", instance=instance)
        with meanwhile(hold_up):
            # Not always ProduceSlow: a stopped process does not see how long a request waits in the kernel.
            scene.expect("a broker that gets no CPU", "EventLoopSlow", instance=instance)
    scene.producer.flush(60)


def flushes_of(scene):
    def produce(done: threading.Event) -> None:
        while not done.wait(0.01):
            with suppress(BufferError):
                scene.producer.produce("flushed", b"x" * 100)
            scene.producer.poll(0)

    return produce


def test_overloaded_broker(scene):
    """Other programs may use the machine: as root, this one and the broker come before them."""
    port = str(scene.cluster.nodes[1].clients.port)
    scene.processes.start("flood", [sys.executable, "-m", "interop.prometheus.flood", port], "")
    if os.geteuid() == 0:
        for pid in (scene.cluster.pid(1), scene.processes.pid("flood")):
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
    try:
        scene.expect("more requests than a broker can handle", "BrokerOverloaded", within_s=OVERLOADED_WITHIN_S)
    finally:
        scene.processes.kill("flood")
        os.sched_setscheduler(scene.cluster.pid(1), os.SCHED_OTHER, os.sched_param(0))


def test_unclean_election_and_lost_majority(scene):
    cluster = scene.cluster
    scene.create("risky", [2, 3])
    cluster.kill(3)
    wait_for("2 is the only replica in sync", lambda: scene.partition("risky").isrs == [2], 60)
    began = time.time()
    cluster.kill(2)
    scene.expect("two of three controllers are dead", "NoMetadataLeader", "NoActiveController", since=began)
    cluster.begin(3)
    wait_for("risky has no leader", lambda: scene.partition("risky").leader == -1, 60)
    # Partitions whose only replica is on 3 are elected as well, when it is back.
    wait_for("3 leads what only it has", lambda: all(scene.leads(3, topic) for topic in ("fragile", "alone")), 60)
    elections = "kafka_controller_controllerstats_uncleanleaderelections_total"
    before = scrape(f"http://{cluster.http[1]}")(elections)
    cluster.odradek("cluster", "elect", "--unclean", "risky:0", "--yes")
    counted = f'{elections}{{instance="{cluster.http[1]}"}} > {before:.0f}'
    wait_for("the election is counted", lambda: scene.prometheus.query(counted), 60)
    cluster.begin(2)


def test_every_alert_was_caused(scene):
    """Last. Writes the table for docs/operations.md."""
    lines = ["| cause | alerts, and seconds until Prometheus saw the condition |", "|---|---|"]
    for cause in dict.fromkeys(fired.cause for fired in scene.fired.values()):
        alerts = sorted((each.after_s, name) for name, each in scene.fired.items() if each.cause == cause)
        lines.append(f"| {cause} | {', '.join(f'{name} {after_s:.0f}' for after_s, name in alerts)} |")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "alerts.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    missing = {alert.name for _, alerts in alert_groups() for alert in alerts} - set(scene.fired)
    if not has_postgres():
        missing.discard(SLOT_ALERT)
    if not scene.cluster.small_disk:
        missing -= {"DiskNearlyFull", "DiskFull", "OfflineReplicas", "StorageErrors"}
    assert not missing
