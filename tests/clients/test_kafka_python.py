"""kafka-python against a broker process. This client is strict: it fails on any response it cannot decode."""

from __future__ import annotations

import threading
import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.consumer.fetcher import ConsumerRecord

from support.waiting import wait_until
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


class Member:
    """Polls in its own thread with a long timeout: kafka-python 3.0 loses an assignment that is made between polls."""

    def __init__(self, tap: Wiretap, topic: str, group: str) -> None:
        self._consumer = consumer(tap, topic, group=group)
        self.seen: list[int] = []
        self.enough = 1_000_000  # the number of records after which it commits and leaves
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while len(self.seen) < self.enough:
            for records in self._consumer.poll(1000, max_records=min(10, self.enough - len(self.seen))).values():
                self.seen += [int(record.value) for record in records]
        self._consumer.commit()
        self._consumer.close()

    def owns(self) -> int:
        return len(self._consumer.assignment())

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


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
    first = Member(tap, "kp-shared", "kp-group")
    wait_until(lambda: first.owns() == 4)
    second = Member(tap, "kp-shared", "kp-group")
    wait_until(lambda: first.owns() == second.owns() == 2)
    second.enough = 0
    second.join()
    wait_until(lambda: first.owns() == 4)
    first.enough = 30
    producer = KafkaProducer(bootstrap_servers=tap.bootstrap)
    for number in range(40):
        producer.send("kp-shared", b"%d" % number)
    producer.close()
    first.join()
    successor = Member(tap, "kp-shared", "kp-group")
    successor.enough = 10
    successor.join()
    assert len(first.seen) == 30
    assert {*first.seen, *successor.seen} == set(range(40))


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


def test_alter_replica_log_dirs_accepts_only_the_current_directory(tap: Wiretap) -> None:
    create_topic(tap, "kp-directories")
    admin = KafkaAdminClient(bootstrap_servers=tap.bootstrap)
    (described,) = admin.describe_log_dirs()
    here = described["log_dirs"][0]["log_dir"]
    broker = described["broker"]
    asked = {
        ("kp-directories", 0, broker): here,
        ("kp-directories", 9, broker): here,
        ("nowhere", 0, broker): f"{here}/elsewhere",
    }
    told = admin.alter_replica_log_dirs(asked)
    assert {tuple(replica): error.__name__ for replica, error in told.items()} == {
        ("kp-directories", 0, broker): "NoError",
        ("kp-directories", 9, broker): "UnknownTopicOrPartitionError",
        ("nowhere", 0, broker): "LogDirNotFoundError",
    }
    admin.close()
