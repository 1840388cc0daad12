"""A compacted topic, filled by a real client and compacted by the broker, and the records that must be left."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support import small_world
from support.waiting import wait_until

TOPIC = "accounts"
BROKER = {"log.cleaner.backoff.ms": "50", "log.flush.offset.checkpoint.interval.ms": "100"}
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
    "index.interval.bytes": "200",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROUNDS, KEYS, DELETED = 20, 30, (3, 4)


def create(bootstrap: str, **config: str) -> None:
    wanted = NewTopic(TOPIC, 1, config={**CONFIG, **config})
    admin = AdminClient(small_world.client(bootstrap))
    for created in admin.create_topics([wanted]).values():
        created.result(20)


def fill(bootstrap: str) -> dict[bytes, bytes | None]:
    """Fills the topic. Returns the last value of each key; None for a deleted key, whose tombstone may be left."""
    latest: dict[bytes, bytes | None] = {}
    refused = []

    def told(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    for codec in CODECS:
        config = {"compression.type": codec, "enable.idempotence": True, "batch.num.messages": 20}
        producer = Producer({**small_world.client(bootstrap), **config, "on_delivery": told})
        for number in range(ROUNDS * KEYS):
            key = b"%d" % (number % KEYS)
            value = None if number % KEYS in DELETED else f"{codec} {number}".encode() * 5
            producer.produce(TOPIC, value, key)
            latest[key] = value
        assert producer.flush(20) == 0
    # So that a newer segment follows these records.
    for last in (b"x" * 3800, b"end"):
        producer.produce(TOPIC, last, b"last")
        assert producer.flush(20) == 0
    assert refused == []
    return {**latest, b"last": b"end"}


def await_compacted(data: Path, within_s: float = 60) -> None:
    """Waits until all segments except the newest are compacted, and the old segments are deleted."""
    checkpoint = data / "cleaner-offset-checkpoint"

    def logs() -> list[Path]:
        return sorted((data / f"{TOPIC}-0").glob("*.log*"))

    def said() -> str:
        return checkpoint.read_text() if checkpoint.exists() else ""

    def is_compacted() -> bool:
        newest = int(logs()[-1].name.partition(".")[0])
        return newest > 0 and f"{TOPIC} 0 {newest}\n" in said() and all(log.suffix == ".log" for log in logs())

    wait_until(is_compacted, lambda: f"compaction: {said()!r} {[log.name for log in logs()]}", within_s=within_s)


def read(bootstrap: str, start: int = 0) -> list[tuple[int, bytes, bytes | None]]:
    """Reads until the client reports the end of the partition: records may be missing at the last offsets."""
    reader = Consumer({**small_world.client(bootstrap, "nobody"), "enable.partition.eof": True})
    reader.assign([TopicPartition(TOPIC, 0, start)])
    found = []
    while True:
        message = reader.poll(20)
        assert message is not None, f"nothing more after {found[-1:]}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        found.append((message.offset(), message.key(), message.value()))
    reader.close()
    return found
