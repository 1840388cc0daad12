"""A cluster of three embedded brokers: killed, paused, partitioned, restarted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.onlooker import WITHIN_S, eventually


def at(cluster: Embedded, server: int | None) -> str:
    return cluster.bootstrap_servers if server is None else f"127.0.0.1:{cluster.nodes[server].port}"


def in_sync(cluster: Embedded, topic: str, server: int | None = None) -> list[set[int]]:
    """The ISR of each partition that has a leader, from the metadata of one broker or of any."""
    admin = AdminClient({"bootstrap.servers": at(cluster, server), "log_level": 0})
    try:
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    except KafkaException:
        return []
    return [set(p.isrs) for p in partitions.values() if p.leader >= 0]


def create(cluster: Embedded, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(WITHIN_S)
    eventually(lambda: in_sync(cluster, topic) == [{1, 2, 3}] * partitions, "not all replicas are in sync")


def produce(cluster: Embedded, topic: str, *values: str, server: int | None = None) -> None:
    producer = Producer({"bootstrap.servers": at(cluster, server), "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WITHIN_S) == 0


def consume(cluster: Embedded, topic: str, count: int) -> list[str]:
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    reader.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
    reader.close()
    return found


@pytest.fixture
def cluster() -> Iterator[Embedded]:
    with Embedded(brokers=3) as cluster:
        yield cluster


def test_every_broker_of_a_cluster_lists_all_brokers(cluster: Embedded) -> None:
    assert len(cluster.bootstrap_servers.split(",")) == 3
    for node_id in (1, 2, 3):
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.nodes[node_id].port}"})
        assert set(admin.list_topics(timeout=60).brokers) == {1, 2, 3}


def test_acknowledged_records_survive_the_kill_of_any_broker(cluster: Embedded) -> None:
    create(cluster, "t")
    ports = cluster.bootstrap_servers
    for node_id in (1, 2, 3):
        produce(cluster, "t", f"before {node_id}")
        cluster.nodes[node_id].kill()
        eventually(lambda: len(in_sync(cluster, "t")) == 1, "no leader was elected")
        produce(cluster, "t", f"after {node_id}")
        cluster.nodes[node_id].start()
        eventually(lambda: in_sync(cluster, "t") == [{1, 2, 3}], "the broker does not rejoin the ISR")
    assert cluster.bootstrap_servers == ports
    assert consume(cluster, "t", 6) == [f"{when} {n}" for n in (1, 2, 3) for when in ("before", "after")]


def test_clients_see_no_error_during_a_rolling_restart(cluster: Embedded) -> None:
    create(cluster, "t", partitions=3)
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    sent = 0
    for node_id in (1, 2, 3):
        for _ in range(100):
            producer.produce("t", str(sent), on_delivery=lambda error, _: failures.append(error) if error else None)
            sent += 1
        producer.poll(0)
        cluster.nodes[node_id].restart()
    assert producer.flush(WITHIN_S) == 0
    assert failures == []
    assert sorted(map(int, consume(cluster, "t", sent))) == list(range(sent))


def test_partitioned_broker_leaves_the_isr_and_rejoins(cluster: Embedded) -> None:
    create(cluster, "t")
    cluster.partition(1, [2, 3])
    eventually(lambda: in_sync(cluster, "t", server=2) == [{2, 3}], "the partitioned broker stays in the ISR")
    # The partitioned broker is not asked: it would still report itself as leader.
    produce(cluster, "t", "while one is away", server=2)
    cluster.heal()
    eventually(lambda: in_sync(cluster, "t") == [{1, 2, 3}], "the broker does not rejoin the ISR after the heal")
    assert consume(cluster, "t", 1) == ["while one is away"]


def test_network_partition_survives_a_restart(cluster: Embedded) -> None:
    create(cluster, "t")
    cluster.nodes[1].kill()
    cluster.partition([1], [2, 3])
    eventually(lambda: in_sync(cluster, "t", server=2) == [{2, 3}], "the stopped broker stays in the ISR")
    cluster.heal()
    cluster.nodes[1].start()
    eventually(lambda: in_sync(cluster, "t") == [{1, 2, 3}], "the broker does not rejoin the ISR")


def test_paused_broker_leaves_the_isr_and_rejoins(cluster: Embedded) -> None:
    create(cluster, "t")
    cluster.nodes[3].pause()
    eventually(lambda: in_sync(cluster, "t", server=1) == [{1, 2}], "the paused broker stays in the ISR")
    cluster.nodes[3].resume()
    eventually(lambda: in_sync(cluster, "t") == [{1, 2, 3}], "the broker does not rejoin the ISR")


def test_cluster_with_separate_controllers_works(tmp_path: Path) -> None:
    with Embedded(brokers=1, controllers=1, data=tmp_path) as cluster:
        produce(cluster, "t", "kept")
        cluster.nodes[2].restart()
        assert cluster.bootstrap_servers == f"127.0.0.1:{cluster.nodes[1].port}"
    with Embedded(brokers=1, controllers=1, data=tmp_path) as cluster:
        assert consume(cluster, "t", 1) == ["kept"]


def test_racks_must_be_given_for_all_brokers_or_none() -> None:
    with pytest.raises(ValueError, match="2 racks for 3 brokers"):
        Embedded(brokers=3, racks=("a", "b"))


def test_data_directory_keeps_records_for_a_later_cluster(tmp_path: Path) -> None:
    with Embedded(brokers=3, data=tmp_path) as cluster:
        create(cluster, "t")
        produce(cluster, "t", "kept")
        ports = cluster.bootstrap_servers
    with Embedded(brokers=3, data=tmp_path) as cluster:
        assert cluster.bootstrap_servers == ports
        produce(cluster, "t", "kept, too")
        cluster.kill()
        cluster.start()
        assert consume(cluster, "t", 2) == ["kept", "kept, too"]
