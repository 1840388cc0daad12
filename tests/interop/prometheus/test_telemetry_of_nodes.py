"""Client telemetry in a cluster: all brokers know a changed subscription, and a client moves to another broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from interop.prometheus.observed_cluster import ObservedCluster, Processes
from support.monitor_process import fetched
from support.waiting import wait_until

CLIENT = "pushing"
SENT = "org_apache_kafka_producer_record_queue_time_avg"
CONNECTIONS = "org_apache_kafka_producer_connection_creation_total"
Series = dict[str, set[str]]


@pytest.fixture
def cluster(tmp_path) -> Iterator[ObservedCluster]:
    processes = Processes(tmp_path)
    cluster = ObservedCluster(tmp_path, processes)
    try:
        cluster.begin(1, 2, 3)
        cluster.odradek("topic", "create", "orders", "-p", "3", "-r", "3")
        yield cluster
    finally:
        processes.stop_all()
        cluster.unmount()


@pytest.fixture
def sending(cluster) -> Iterator[None]:
    """A producer of librdkafka. It gets its first subscription when it connects."""
    subscribe(cluster, "org.apache.kafka.producer.connection.")
    done = threading.Event()
    config = {"bootstrap.servers": cluster.bootstrap, "client.id": CLIENT, "log_level": 0}
    producer = Producer(config)

    def send() -> None:
        while not done.wait(0.05):
            producer.produce("orders", b"value")
            producer.poll(0)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    done.set()
    thread.join()
    producer.flush(60)


def subscribe(cluster: ObservedCluster, metrics: str) -> None:
    settings = [f"metrics={metrics}", "interval.ms=200", f"match=client_id={CLIENT}"]
    cluster.odradek("config", "set", "client-metrics", "story", *settings)


def exported(cluster: ObservedCluster, node_id: int) -> Series:
    """By name, the instance ids of the client's series at one node."""
    status, text = fetched(f"http://{cluster.http[node_id]}/metrics")
    assert status == 200
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("client_id") == CLIENT:
                found.setdefault(sample.name, set()).add(sample.labels["client_instance_id"])
    return found


def exporter_of(cluster: ObservedCluster, metric: str, *node_ids: int) -> int | None:
    return next((node_id for node_id in node_ids if metric in exported(cluster, node_id)), None)


def test_a_subscription_changes_and_the_broker_that_gets_the_metrics_dies(cluster, sending) -> None:
    first = wait_until(lambda: exporter_of(cluster, CONNECTIONS, 1, 2, 3), "a broker exports the metric", within_s=120)
    [instance] = exported(cluster, first)[CONNECTIONS]
    assert SENT not in exported(cluster, first)

    subscribe(cluster, "org.apache.kafka.producer.")
    wait_until(
        lambda: exporter_of(cluster, SENT, 1, 2, 3) == first, "the client has the new subscription", within_s=120
    )

    cluster.kill(first)
    others = [node_id for node_id in (1, 2, 3) if node_id != first]
    second = wait_until(lambda: exporter_of(cluster, SENT, *others), "another broker gets the metrics", within_s=120)
    assert exported(cluster, second)[SENT] == {instance}, "the client keeps its id"
