"""Cluster metadata outlives any node: snapshots, and nodes that were away."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.cli.quorum import described
from odradek.testing import Embedded

pytestmark = pytest.mark.clients

SMALL_LOG = {"internal.metadata.log.segment.bytes": 100_000, "metadata.log.max.record.bytes.between.snapshots": 30_000}
PARTITIONS = 100
TOPICS = 12


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def await_absence(cluster: Embedded, node_id: int) -> None:
    """Uses a new client for each request: a client that has asked the dead node keeps retrying it until its timeout."""
    while node_id in admin(cluster.bootstrap_servers).list_topics(timeout=20).brokers:
        pass


def create(client: AdminClient, name: str) -> None:
    """A client may be asking a broker that is just stopping: it gets an error, and the request is retried."""
    while name not in client.list_topics(timeout=20).topics:
        with suppress(KafkaException, TimeoutError):
            client.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)


def test_a_node_that_missed_more_than_the_log_holds_fetches_a_snapshot(tmp_path: Path):
    with Embedded(brokers=3, data=tmp_path, config=SMALL_LOG) as cluster:
        create(admin(cluster.bootstrap_servers), "before")
        cluster.nodes[3].kill()
        await_absence(cluster, 3)
        client = admin(cluster.bootstrap_servers)
        for number in range(TOPICS):
            create(client, f"meanwhile-{number}")
        cluster.nodes[3].start()
        topics = admin(f"127.0.0.1:{cluster.nodes[3].port}").list_topics(timeout=20).topics
        assert {"before", "meanwhile-0", f"meanwhile-{TOPICS - 1}"} <= topics.keys()
    log = sorted(path.name for path in (tmp_path / "3" / "__cluster_metadata-0").glob("*.log"))
    assert int(log[0].removesuffix(".log")) > 0


def test_a_node_starts_from_its_snapshot(tmp_path: Path):
    with Embedded(data=tmp_path, config=SMALL_LOG) as broker:
        client = admin(broker.bootstrap_servers)
        for number in range(TOPICS):
            create(client, f"t{number}")
    assert len(list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))) > 1
    with Embedded(data=tmp_path, config=SMALL_LOG) as broker:
        topics = admin(broker.bootstrap_servers).list_topics(timeout=20).topics
        assert len([name for name in topics if name.startswith("t")]) == TOPICS


def test_a_broker_that_dies_as_the_active_controller_is_fenced_before_its_session_ends():
    """The new controller never got its heartbeats; by the session timeout alone, the test would wait ten minutes."""
    with Embedded(brokers=3, config={"broker.session.timeout.ms": 600_000}) as cluster:
        leader = described(cluster.bootstrap_servers).leader
        cluster.nodes[leader].kill()
        await_absence(cluster, leader)
