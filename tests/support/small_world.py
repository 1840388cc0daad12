"""A small data set written by a real client, and a check that a broker on the same directory still has all of it.

It has all kinds of data that brokers store in files: rolled segments, all codecs, headers, null and empty keys and
values, an idempotent producer, deleted records at a log start, log append times, a deleted topic, two groups.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_750_000_000_000
KEPT_FOR_EVER = {"retention.ms": "-1"}
CONFIGS: dict[str, dict[str, str]] = {
    "rolled": {**KEPT_FOR_EVER, "internal.segment.bytes": "2000", "index.interval.bytes": "200"},
    "codecs": KEPT_FOR_EVER,
    "edges": {**KEPT_FOR_EVER, "cleanup.policy": "delete", "max.message.bytes": "100000"},
    "trimmed": KEPT_FOR_EVER,
    "stamped": {**KEPT_FOR_EVER, "message.timestamp.type": "LogAppendTime"},
    "gone": {},
}
PARTITIONS = {"rolled": 2}
TRIMMED_TO = 5


Partition = tuple[str, int]


class Seen(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None  # None for log append time


def expected() -> dict[Partition, list[Seen]]:
    """The records by partition, from its first readable offset to its end."""
    return {
        ("rolled", 0): [Seen(n, b"key %d" % n, b"zero %d" % n, [], FIRST_MS + n) for n in range(120)],
        ("rolled", 1): [Seen(n, b"key %d" % n, b"one %d" % n, [], FIRST_MS - n) for n in range(120)],
        ("codecs", 0): [
            Seen(4 * number + n, codec.encode(), codec.encode() * 30, [], FIRST_MS + n)
            for number, codec in enumerate(CODECS)
            for n in range(4)
        ],
        ("edges", 0): [
            Seen(0, None, b"no key", [], FIRST_MS),
            Seen(1, b"no value", None, [], FIRST_MS),
            Seen(2, None, None, [], FIRST_MS),
            Seen(3, b"", b"", [], FIRST_MS),
            Seen(4, "schlüssel".encode(), "größe".encode(), [("a", b"1"), ("a", None), ("ü", b"")], FIRST_MS),
        ],
        ("trimmed", 0): [Seen(n, None, b"%d" % n, [], FIRST_MS) for n in range(TRIMMED_TO, 12)],
        ("stamped", 0): [Seen(n, b"k", b"%d" % n, [], None) for n in range(3)],
    }


COMMITTED = {
    "readers": {("rolled", 0): (120, ""), ("rolled", 1): (120, "")},
    "bookkeeper": {("codecs", 0): (7, "as far as the ledger goes")},
}


def fill(bootstrap: str) -> Consumer:
    """Returns the only member of the group `readers`. It leaves if it is closed, but stays if the broker is killed."""
    admin = AdminClient(client(bootstrap))
    wanted = [NewTopic(name, PARTITIONS.get(name, 1), config=config) for name, config in CONFIGS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(20)
    _produce_all(bootstrap)
    admin.delete_topics(["gone"])["gone"].result(20)
    for trimmed in admin.delete_records([TopicPartition("trimmed", 0, TRIMMED_TO)]).values():
        assert trimmed.result(20).low_watermark == TRIMMED_TO
    Consumer(client(bootstrap, "bookkeeper")).commit(
        offsets=[TopicPartition("codecs", 0, 7, metadata="as far as the ledger goes")], asynchronous=False
    )
    return _read_as_group(bootstrap)


def check(bootstrap: str, *, after_kill: bool = False, added: dict[Partition, list[bytes]] | None = None) -> None:
    """Records, offsets, configurations and group offsets are as `fill` left them, followed by the `added` records.

    Kafka checkpoints the log start offset once a minute: after a kill, deleted records may be readable again.
    """
    admin = AdminClient(client(bootstrap))
    topics = sorted(name for name in admin.list_topics(timeout=20).topics if not name.startswith("__"))
    assert topics == sorted(set(CONFIGS) - {"gone"}), f"there are {topics}"
    wanted = expected()
    for partition, values in (added or {}).items():
        end = wanted[partition][-1].offset + 1
        wanted[partition] += [Seen(end + n, None, value, [], FIRST_MS) for n, value in enumerate(values)]
    for partition, found in read(bootstrap, *wanted).items():
        first = wanted[partition][0].offset if after_kill else 0
        assert [seen for seen in found if seen.offset >= first] == wanted[partition], partition
    for topic in topics:
        assert configured(admin, topic) == CONFIGS[topic], topic
    for group, offsets in COMMITTED.items():
        assert committed(bootstrap, group, list(offsets)) == offsets, group


def client(bootstrap: str, group: str | None = None) -> dict[str, object]:
    config: dict[str, object] = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100}
    if group is not None:
        config |= {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        config |= {"check.crcs": True, "isolation.level": "read_uncommitted"}
    return config


def read(bootstrap: str, *partitions: Partition) -> dict[Partition, list[Seen]]:
    """Reads each partition from its first readable offset to its end."""
    reader = Consumer(client(bootstrap, "nobody"))
    asked = [TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions]
    ranges = [reader.get_watermark_offsets(at, timeout=20) for at in asked]
    wanted = sum(end - start for start, end in ranges)
    reader.assign(asked)
    found: dict[Partition, list[Seen]] = {partition: [] for partition in partitions}
    deadline = time.monotonic() + 30
    while wanted:
        assert time.monotonic() < deadline, f"{wanted} records are missing"
        for message in reader.consume(wanted, 5.0):
            assert message.error() is None, message.error()
            when = None if message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME else message.timestamp()[1]
            seen = Seen(message.offset(), message.key(), message.value(), message.headers() or [], when)
            found[message.topic(), message.partition()].append(seen)
            wanted -= 1
    reader.close()
    return found


def configured(admin: AdminClient, topic: str) -> dict[str, str]:
    """The configs that were set for this topic (source 1)."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(20).values()
    return {entry.name: entry.value for entry in entries if entry.source == 1}


def committed(bootstrap: str, group: str, partitions: list[Partition]) -> dict[Partition, tuple[int, str]]:
    asked = [TopicPartition(*partition) for partition in partitions]
    found = Consumer(client(bootstrap, group)).committed(asked, timeout=20)
    # The client includes the terminating zero byte in the metadata.
    return {(at.topic, at.partition): (at.offset, (at.metadata or "").rstrip("\0")) for at in found}


class IdempotentProducer:
    """Continues its sequence numbers when another broker takes over its address."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            client(bootstrap) | {"enable.idempotence": True, "linger.ms": 50, "message.timeout.ms": 60_000}
        )

    def send(self, topic: str, partition: int, values: list[bytes]) -> list[int]:
        """The offsets, in the order of the values."""
        offsets: dict[bytes, int] = {}

        def delivered(error: object, message: object) -> None:
            assert error is None, error
            offsets[message.value()] = message.offset()  # type: ignore[attr-defined]

        for value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=delivered, timestamp=FIRST_MS)
        assert self._producer.flush(60) == 0
        return [offsets[value] for value in values]


def _produce_all(bootstrap: str) -> None:
    plain = {"linger.ms": 200}
    for codec in CODECS:
        producer = Producer(client(bootstrap) | plain | {"compression.codec": codec})
        for n in range(4):
            producer.produce("codecs", codec * 30, codec, timestamp=FIRST_MS + n)
        assert producer.flush(20) == 0
    producer = Producer(client(bootstrap) | plain | {"enable.idempotence": True, "batch.num.messages": 10})
    written = {(topic, partition): seen for (topic, partition), seen in expected().items() if topic != "codecs"}
    written[("trimmed", 0)] = [Seen(n, None, b"%d" % n, [], FIRST_MS) for n in range(12)]
    for (topic, partition), records in written.items():
        for seen in records:
            when = FIRST_MS if seen.timestamp is None else seen.timestamp
            producer.produce(topic, seen.value, seen.key, partition, headers=seen.headers, timestamp=when)
    producer.produce("gone", "soon", partition=0)
    assert producer.flush(20) == 0


def _read_as_group(bootstrap: str) -> Consumer:
    member = Consumer(client(bootstrap, "readers"))
    member.subscribe(["rolled"])
    count = 0
    deadline = time.monotonic() + 60
    while count < 240:
        assert time.monotonic() < deadline, f"the group read {count} of 240"
        count += sum(message.error() is None for message in member.consume(240, 0.2))
    member.commit(asynchronous=False)
    return member
