"""MirrorMaker 2 and our mirror, side by side: the same source, a target for each, and the same topics afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from odradek.client.admin import Admin
from odradek.connect.connectors.mirror.compacted import CompactedTopic
from odradek.connect.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from odradek.testing import Embedded
from support.connect_service import connect_service
from support.kafka_connect import kafka_connect, kafka_jars
from support.topics import Records
from support.waiting import wait_until

WITHIN_S = 120.0
MM2 = "org.apache.kafka.connect.mirror.Mirror"
# Topics of the two connect services themselves.
OF_SERVICES = ("connect-", "kafkas-", "__")
COMMON = {
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
    "offset-syncs.topic.location": "target",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}
CONNECTORS = {
    "SourceConnector": {"topics": "orders, visits", "sync.topic.acls.enabled": "false", "tasks.max": "1"},
    "CheckpointConnector": {
        "groups": "readers",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    },
    "HeartbeatConnector": {},
}
# Options that MirrorMaker 2 wants for clusters of one broker. -1, the cluster's default, is ours.
ONE_REPLICA = dict.fromkeys(
    [
        "replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset-syncs.topic.replication.factor",
    ],
    "1",
)


@pytest.fixture(scope="module")
def source() -> Iterator[Embedded]:
    with Embedded() as source:
        bootstrap = source.bootstrap_servers
        admin, records = Admin(bootstrap), Records(bootstrap)
        admin.create_topic("orders", 2, {"retention.ms": "123456789", "min.insync.replicas": "1"})
        admin.create_topic("visits", 1)
        records.put("orders", [f"o{number}" for number in range(250)], key="k", headers=[("h", b"\x00")])
        records.put("orders", [None, b""], key="tombstone", partition=1, timestamp_ms=1_700_000_000_000)
        records.put("visits", map(str, range(30)))
        admin.set_committed("readers", {("orders", 0): 250, ("visits", 0): 0})
        yield source


def states(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    reader = CompactedTopic({"bootstrap.servers": bootstrap}, topic)
    try:
        return list(reader.news())
    finally:
        reader.close()


def records_of(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "comparing", "enable.partition.eof": True})
    found: list[Message] = []
    ended: set[int] = set()
    partitions = Admin(bootstrap).partitions(topic)
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])

        def has_all() -> bool:
            for each in consumer.consume(1_000, 0.1):
                found.append(each) if each.error() is None else ended.add(each.partition())
            return len(ended) == len(partitions)

        wait_until(has_all, topic, within_s=WITHIN_S)
    finally:
        consumer.close()
    content = [(each.partition(), each.key(), each.value(), each.headers(), each.timestamp()) for each in found]
    return sorted(content, key=lambda each: each[0])  # stable: the order in each partition is kept


def configs(source: Embedded, target: Embedded) -> dict[str, dict[str, str]]:
    clusters = {
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
    }
    as_bytes = {
        f"{part}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"
        for part in ("key", "value", "header")
    }
    known = {"SourceConnector": ["replication.factor", "offset-syncs.topic.replication.factor"]}
    known["CheckpointConnector"] = ["checkpoints.topic.replication.factor", "offset-syncs.topic.replication.factor"]
    known["HeartbeatConnector"] = ["heartbeats.topic.replication.factor"]
    made = {}
    for kind, own in CONNECTORS.items():
        replicas = {name: ONE_REPLICA[name] for name in known[kind]}
        common = dict(COMMON)
        if kind != "SourceConnector":
            del common["refresh.topics.interval.seconds"]
        if kind != "CheckpointConnector":
            del common["refresh.groups.interval.seconds"]
        if kind == "HeartbeatConnector":
            del common["offset-syncs.topic.location"]
        made[kind] = {"connector.class": MM2 + kind, **common, **clusters, **as_bytes, **replicas, **own}
    return made


def settle(target: Embedded) -> None:
    """Until the mirror has done all of its work in a target."""
    bootstrap = target.bootstrap_servers
    admin = Admin(bootstrap)
    needed = {"west.orders", "west.visits", "west.checkpoints.internal", "heartbeats"}
    wait_until(lambda: needed <= set(admin.topics()), lambda: str(admin.topics()), within_s=WITHIN_S)
    wait_until(lambda: len(records_of(bootstrap, "west.orders")) == 252, within_s=WITHIN_S)
    wait_until(lambda: len(records_of(bootstrap, "west.visits")) == 30, within_s=WITHIN_S)
    wait_until(lambda: len(admin.committed("readers")) == 2, within_s=WITHIN_S)

    def next_value() -> object:
        offset = admin.committed("readers")["west.orders", 0]
        return admin.end_offsets("west.orders")[0] - offset

    # the marker of our transaction may be behind the last record
    wait_until(lambda: next_value() <= 1, next_value, within_s=WITHIN_S)


def test_both_mirrors_make_the_same_topics(source: Embedded) -> None:
    with Embedded() as theirs, Embedded() as ours:
        with kafka_connect(theirs.bootstrap_servers, jars=kafka_jars.mirror) as http:
            for kind, config in configs(source, theirs).items():
                answer = http.post("/connectors", json={"name": kind, "config": config})
                assert answer.status_code == 201, answer.text
            settle(theirs)
        with connect_service(ours.bootstrap_servers) as service:
            for kind, config in configs(source, ours).items():
                service.create(kind, **config)
            settle(ours)
        admins = [Admin(each.bootstrap_servers) for each in (theirs, ours)]
        topics = [[name for name in each.topics() if not name.startswith(OF_SERVICES)] for each in admins]
        assert topics[0] == topics[1]
        counts = [{name: each.partition_counts()[name] for name in topics[0]} for each in admins]
        assert counts[0] == counts[1]
        own = [each.own_topic_configs(topics[0]) for each in admins]
        assert own[0] == own[1]
        for topic in ("west.orders", "west.visits"):
            assert records_of(theirs.bootstrap_servers, topic) == records_of(ours.bootstrap_servers, topic)
        _compare_internal_topics(theirs.bootstrap_servers, ours.bootstrap_servers)


def _compare_internal_topics(theirs: str, ours: str) -> None:
    """Our formats read and write MirrorMaker's bytes. Offsets in the target may differ, because ours has markers."""
    for topic, kind in (
        ("west.checkpoints.internal", Checkpoint),
        ("heartbeats", Heartbeat),
        ("mm2-offset-syncs.west.internal", OffsetSync),
    ):
        stored = states(theirs, topic)
        assert stored
        assert [kind.decoded(*each).encoded() for each in stored] == stored
        assert {key for key, _ in stored} == {key for key, _ in states(ours, topic)}
    last = [
        {(each.topic, each.upstream) for each in (Checkpoint.decoded(*pair) for pair in states(cluster, topic))}
        for cluster, topic in ((theirs, "west.checkpoints.internal"), (ours, "west.checkpoints.internal"))
    ]
    assert last[0] == last[1]
