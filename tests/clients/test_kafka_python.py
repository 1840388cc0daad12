"""kafka-python against a broker process: the strict one, that aborts on any reply it cannot decode."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.consumer.fetcher import ConsumerRecord

from support.wiretap import Wiretap

pytestmark = pytest.mark.clients


def create_topic(tap: Wiretap, name: str, partitions: int = 1) -> None:
    admin = KafkaAdminClient(bootstrap_servers=tap.bootstrap)
    admin.create_topics([NewTopic(name, partitions, 1)])
    admin.close()


def consumer(tap: Wiretap, *topics: str, group: str | None = None) -> KafkaConsumer:
    return KafkaConsumer(
        *topics,
        bootstrap_servers=tap.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=6000,
    )


def read(member: KafkaConsumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + 30
    while len(records) < count and time.monotonic() < deadline:
        for batch in member.poll(100, max_records=count - len(records)).values():
            records += batch
    assert len(records) == count
    return records


def poll_until(members: list[KafkaConsumer], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the group did not settle"
        for member in members:
            member.poll(50)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(tap: Wiretap, codec: str | None) -> None:
    topic = f"kp-{codec}"
    create_topic(tap, topic)
    producer = KafkaProducer(bootstrap_servers=tap.bootstrap, compression_type=codec, acks="all", linger_ms=5)
    sent = [producer.send(topic, b"%d" % number * 30, headers=[("n", b"%d" % number)]) for number in range(300)]
    assert [pending.get(10).offset for pending in sent] == list(range(300))
    producer.close()
    reader = consumer(tap, topic)
    assert [record.value for record in read(reader, 300)] == [b"%d" % number * 30 for number in range(300)]
    reader.close()


def test_group_with_a_rebalance_commit_and_resume(tap: Wiretap) -> None:
    create_topic(tap, "kp-shared", 4)
    first = consumer(tap, "kp-shared", group="kp-group")
    poll_until([first], lambda: len(first.assignment()) == 4)
    second = consumer(tap, "kp-shared", group="kp-group")
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    second.close()
    poll_until([first], lambda: len(first.assignment()) == 4)
    producer = KafkaProducer(bootstrap_servers=tap.bootstrap)
    for number in range(40):
        producer.send("kp-shared", b"%d" % number)
    producer.close()
    seen = read(first, 30)
    first.commit()
    first.close()
    successor = consumer(tap, "kp-shared", group="kp-group")
    rest = read(successor, 10)
    successor.close()
    assert {int(record.value) for record in seen + rest} == set(range(40))


def test_seek_by_offset_and_time(tap: Wiretap) -> None:
    create_topic(tap, "kp-seek")
    start = int(time.time() * 1000) - 10_000
    producer = KafkaProducer(bootstrap_servers=tap.bootstrap)
    for number in range(50):
        producer.send("kp-seek", b"%d" % number, timestamp_ms=start + number * 10)
    producer.close()
    partition = TopicPartition("kp-seek", 0)
    reader = consumer(tap)
    reader.assign([partition])
    reader.seek(partition, 45)
    assert read(reader, 1)[0].offset == 45
    assert reader.offsets_for_times({partition: start + 205})[partition].offset == 21
    assert reader.end_offsets([partition]) == {partition: 50}
    reader.close()


def test_topics_are_created_and_deleted(tap: Wiretap) -> None:
    create_topic(tap, "kp-life", 3)
    admin = KafkaAdminClient(bootstrap_servers=tap.bootstrap)
    assert "kp-life" in admin.list_topics()
    admin.delete_topics(["kp-life"])
    assert "kp-life" not in admin.list_topics()
    admin.close()
