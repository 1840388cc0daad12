"""`mirror`: records, configs and group offsets of one broker in another one, both real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.connect.connectors.mirror.compacted import CompactedTopic
from odradek.connect.connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from odradek.testing import Embedded
from support.connect_service import Service, connect_service, eventually
from support.topics import Records

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def source() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture(scope="module")
def service(target: Embedded) -> Iterator[Service]:
    with connect_service(target.bootstrap_servers) as service:
        yield service


@pytest.fixture(autouse=True)
def clean(service: Service) -> Iterator[None]:
    yield
    for name in service.http.get("/connectors").json():
        service.http.delete(f"/connectors/{name}")


@pytest.fixture
def written(source: Embedded) -> Records:
    return Records(source.bootstrap_servers)


def mirror(
    service: Service, name: str, source: Embedded, target: Embedded, kind: str = "mirror", **more: object
) -> None:
    given = {
        "connector.class": kind,
        "source.cluster.alias": "west",
        "target.cluster.alias": "east",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "poll.interval.ms": 50,
    } | {key.replace("_", "."): value for key, value in more.items()}
    service.create(name, **given)


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """The first committed records of all partitions of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test-reader", "auto.offset.reset": "earliest"})
    try:
        eventually(lambda: topic in Admin(bootstrap).topics(), topic)
        places = [TopicPartition(topic, index, 0) for index in Admin(bootstrap).partitions(topic)]
        consumer.assign(places)
        found: list[Message] = []

        def has_all() -> bool:
            found.extend(each for each in consumer.consume(1_000, 0.1) if each.error() is None)
            return len(found) >= count

        eventually(
            has_all,
            lambda: f"{len(found)} of {count} records of {topic}",
        )
        return found
    finally:
        consumer.close()


def content(messages: list[Message]) -> dict[int, list[tuple[object, ...]]]:
    """What must be equal in both clusters, in order, for each partition."""
    content: dict[int, list[tuple[object, ...]]] = {}
    for each in messages:
        record = (each.key(), each.value(), each.headers(), each.timestamp())
        content.setdefault(each.partition(), []).append(record)
    return content


def states(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    reader = CompactedTopic({"bootstrap.servers": bootstrap}, topic)
    try:
        return list(reader.news())
    finally:
        reader.close()


def transaction(bootstrap: str, topic: str, values: list[bytes], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-of-{topic}"})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(LIMIT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(LIMIT_S)


def test_records_arrive_unchanged_in_the_same_partitions(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    Admin(source.bootstrap_servers).create_topic("orders", 3, {"retention.ms": "123456789", "compression.type": "gzip"})
    put = written.put
    put("orders", [b"\x00\xff raw", b""], partition=0, key="a", timestamp_ms=1_700_000_000_123)
    put("orders", [None, "text"], partition=2, key="b", headers=[("h", b"\x01"), ("empty", None), ("h", b"again")])
    put("orders", ["without a key"], partition=1)
    mirror(service, "unchanged", source, target, topics="orders", topics_exclude="", tasks_max=2)
    there = read(target.bootstrap_servers, "west.orders", 5)
    assert content(there) == content(read(source.bootstrap_servers, "orders", 5))
    assert sorted(content(there)) == [0, 1, 2]
    own = Admin(target.bootstrap_servers).own_topic_configs(["west.orders"])["west.orders"]
    assert own == {"retention.ms": "123456789", "compression.type": "gzip"}
    # offsets as MirrorMaker 2 stores them: that of the last record
    offsets = service.http.get("/connectors/unchanged/offsets").json()["offsets"]
    known = {
        each["partition"]["partition"]: (each["partition"]["cluster"], each["offset"]["offset"]) for each in offsets
    }
    assert known == {0: ("west", 1), 1: ("west", 0), 2: ("west", 1)}


def test_only_committed_records_arrive_and_an_idle_mirror_rests(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    Admin(source.bootstrap_servers).create_topic("paid", 1)
    transaction(source.bootstrap_servers, "paid", [b"1", b"2"], commit=True)
    transaction(source.bootstrap_servers, "paid", [b"lost"], commit=False)
    mirror(service, "committed", source, target, topics="paid")
    assert [each.value() for each in read(target.bootstrap_servers, "west.paid", 2)] == [b"1", b"2"]

    def offset() -> object:
        offsets = service.http.get("/connectors/committed/offsets").json()["offsets"]
        return offsets and offsets[0]["offset"]["offset"]

    # 0, 1, marker, 3, marker: the offset passes the markers, so that there is no news
    eventually(lambda: offset() == 4, offset)
    written.put("paid", ["3"])
    assert [each.value() for each in read(target.bootstrap_servers, "west.paid", 3)] == [b"1", b"2", b"3"]


def test_new_topics_partitions_and_configs_follow(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    here, there = Admin(source.bootstrap_servers), Admin(target.bootstrap_servers)
    here.create_topic("grow-a", 1, {"retention.ms": "1000000"})
    more = {"refresh.topics.interval.seconds": 1, "sync.topic.configs.interval.seconds": 1}
    mirror(service, "growing", source, target, topics="grow-.*, other", topics_exclude="grow-x.*", **more)
    eventually(lambda: "west.grow-a" in there.topics())
    here.create_topic("grow-x", 1)
    here.create_topic("grow-b", 2)
    here.add_partitions("grow-a", 3)
    here.set_topic_config("grow-a", retention_ms=None, max_message_bytes="2000000", min_insync_replicas="1")
    written.put("grow-a", ["in the new partition"], partition=2)
    written.put("grow-b", ["in the new topic"], partition=1)
    eventually(lambda: there.partition_counts()["west.grow-a"] == 3)
    assert [each.partition() for each in read(target.bootstrap_servers, "west.grow-a", 1)] == [2]
    assert [each.partition() for each in read(target.bootstrap_servers, "west.grow-b", 1)] == [1]
    # min.insync.replicas is excluded by default
    eventually(lambda: there.own_topic_configs(["west.grow-a"]) == {"west.grow-a": {"max.message.bytes": "2000000"}})
    assert "west.grow-x" not in there.topics()


def test_a_run_is_not_idle_before_the_source_has_answered_for_all_partitions(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    """The first fetch is for the first partition alone, and waits longer than an idle run lasts."""
    Admin(source.bootstrap_servers).create_topic("slow", 4)
    written.put("slow", ["in the last partition"], partition=3)
    mirror(service, "slow", source, target, topics="slow", **{"consumer.fetch.max.wait.ms": 2_000})
    assert [each.partition() for each in read(target.bootstrap_servers, "west.slow", 1)] == [3]


def test_a_mirror_in_both_directions_does_not_mirror_its_own_topics(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    Admin(source.bootstrap_servers).create_topic("loop", 1)
    Admin(target.bootstrap_servers).create_topic("loop", 1)
    written.put("loop", ["from the west"])
    Records(target.bootstrap_servers).put("loop", ["from the east"])
    mirror(service, "to-east", source, target, topics=r".*\.?loop", **{"refresh.topics.interval.seconds": 1})
    with connect_service(source.bootstrap_servers) as other:
        names = {"source.cluster.alias": "east", "target.cluster.alias": "west"}
        more = {"refresh.topics.interval.seconds": 1, "topics": r".*\.?loop"}
        mirror(other, "to-west", target, source, **names, **more)
        assert read(target.bootstrap_servers, "west.loop", 1)[0].value() == b"from the west"
        assert read(source.bootstrap_servers, "east.loop", 1)[0].value() == b"from the east"
        # a topic that is found later shows that the topics were listed again
        for broker, name in ((source, "later.loop"), (target, "later2.loop")):
            Admin(broker.bootstrap_servers).create_topic(name, 1)
        eventually(lambda: "west.later.loop" in Admin(target.bootstrap_servers).topics())
        eventually(lambda: "east.later2.loop" in Admin(source.bootstrap_servers).topics())
    for broker in (source, target):
        assert not [name for name in Admin(broker.bootstrap_servers).topics() if name.count("st.") > 1]


def test_groups_continue_in_the_target_where_they_were(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    here, there = Admin(source.bootstrap_servers), Admin(target.bootstrap_servers)
    here.create_topic("visits", 1)
    there.create_topic("west.visits", 1)
    # the offsets of the two topics differ
    Records(target.bootstrap_servers).put("west.visits", ["already here"] * 7)
    written.put("visits", map(str, range(500)))
    here.set_committed("readers", {("visits", 0): 500})
    here.set_committed("beginners", {("visits", 0): 0})
    here.set_committed("halfway", {("visits", 0): 250})
    mirror(service, "visits", source, target, topics="visits", **{"offset.lag.max": 10})
    mirrored = [each.value() for each in read(target.bootstrap_servers, "west.visits", 507)]
    assert mirrored[7:] == [str(number).encode() for number in range(500)]
    more = {
        "groups": "readers,beginners,halfway",
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": 1,
        "sync.group.offsets.interval.seconds": 1,
    }
    mirror(service, "visits-groups", source, target, "mirror-checkpoints", topics="visits", **more)

    def next_value(group: str) -> bytes | None:
        """What a member of the group in the target would read next."""
        offset = there.committed(group).get(("west.visits", 0))
        at = [] if offset is None else [each for each in everything if each.offset() >= offset]
        return at[0].value() if at else (None if offset is None else b"end")

    everything = read(target.bootstrap_servers, "west.visits", 507)
    eventually(lambda: next_value("readers") == b"end")
    eventually(lambda: next_value("beginners") == b"0")
    # never after what the group has read, and at most offset.lag.max (and the marker of a transaction) before it
    eventually(lambda: there.committed("halfway"))
    assert 250 - 12 <= int(next_value("halfway") or b"-1") <= 250
    checkpoints = [Checkpoint.decoded(*each) for each in states(target.bootstrap_servers, "west.checkpoints.internal")]
    assert {(each.group, each.topic, each.upstream) for each in checkpoints} == {
        ("readers", "west.visits", 500),
        ("beginners", "west.visits", 0),
        ("halfway", "west.visits", 250),
    }
    # a group that moves on is translated again
    written.put("visits", ["more"] * 20)
    here.set_committed("readers", {("visits", 0): 520})
    read(target.bootstrap_servers, "west.visits", 527)
    everything = read(target.bootstrap_servers, "west.visits", 527)
    eventually(lambda: there.committed("readers")["west.visits", 0] > everything[506].offset() + 1)


def test_offset_syncs_name_the_record_in_the_target(
    service: Service, source: Embedded, target: Embedded, written: Records
) -> None:
    Admin(source.bootstrap_servers).create_topic("synced", 1)
    written.put("synced", map(str, range(300)))
    mirror(service, "synced", source, target, topics="synced", **{"batch.records.max": 37, "offset.lag.max": 20})
    there = {each.offset(): each.value() for each in read(target.bootstrap_servers, "west.synced", 300)}

    def syncs() -> list[OffsetSync]:
        found = [
            OffsetSync.decoded(*each) for each in states(source.bootstrap_servers, "mm2-offset-syncs.east.internal")
        ]
        return [each for each in found if each.topic == "synced"]

    eventually(lambda: [each.upstream for each in syncs()][-1:] == [299], lambda: str(syncs()))
    assert {each.upstream: there[each.downstream] for each in syncs()} == {
        each.upstream: str(each.upstream).encode() for each in syncs()
    }
    downstreams = [each.downstream for each in syncs()]
    assert max(after - before for before, after in pairwise(downstreams)) <= 24


def test_heartbeats_are_written_and_mirrored(service: Service, source: Embedded, target: Embedded) -> None:
    with connect_service(source.bootstrap_servers) as other:
        names = {"source.cluster.alias": "east", "target.cluster.alias": "west"}
        mirror(other, "beats", target, source, "mirror-heartbeats", **names)
        mirror(service, "with-beats", source, target, topics="nothing", **{"refresh.topics.interval.seconds": 1})
        first = read(target.bootstrap_servers, "west.heartbeats", 2)[0]
    beat = Heartbeat.decoded(first.key(), first.value())
    assert (beat.source, beat.target, beat.timestamp_ms) == ("east", "west", first.timestamp()[1])


def test_identity_policy_keeps_names(service: Service, source: Embedded, target: Embedded, written: Records) -> None:
    Admin(source.bootstrap_servers).create_topic("same", 1)
    written.put("same", ["one"])
    policy = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    mirror(service, "identity", source, target, topics="same", **policy)
    assert read(target.bootstrap_servers, "same", 1)[0].value() == b"one"


def test_the_java_class_name_and_bad_client_configs(service: Service, source: Embedded, target: Embedded) -> None:
    def errors(**more: object) -> Mapping[str, list[str]]:
        given = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "name": "checked",
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "target.cluster.bootstrap.servers": target.bootstrap_servers,
        } | {key.replace("_", "."): str(value) for key, value in more.items()}
        answer = service.http.put("/connector-plugins/mirror/config/validate", json=given).json()
        return {each["value"]["name"]: each["value"]["errors"] for each in answer["configs"] if each["value"]["errors"]}

    assert errors() == {}
    assert "source.cluster" in errors(**{"source.cluster.securty.protocol": "SSL"})
    assert "topics" in errors(topics="a(")
    assert "sync.topic.acls.enabled" in errors(**{"sync.topic.acls.enabled": "true"})
