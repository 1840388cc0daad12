"""A compacted topic, filled by a real client and compacted by itself, and what must be left of it."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support import small_world

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
    for created in AdminClient(small_world.client(bootstrap)).create_topics([wanted]).values():
        created.result(20)


def fill(bootstrap: str) -> dict[bytes, bytes | None]:
    """The last value of each key: None for those that were deleted and may be seen as such."""
    latest: dict[bytes, bytes | None] = {}
    for codec in CODECS:
        producer = Producer({**small_world.client(bootstrap), "compression.type": codec, "enable.idempotence": True})
        for number in range(ROUNDS * KEYS):
            key = b"%d" % (number % KEYS)
            value = None if number % KEYS in DELETED else f"{codec} {number}".encode() * 5
            producer.produce(TOPIC, value, key)
            latest[key] = value
        assert producer.flush(20) == 0
    # So that there is a segment behind all this.
    producer.produce(TOPIC, b"x" * 3900, b"last")
    producer.produce(TOPIC, b"end", b"last")
    assert producer.flush(20) == 0
    return {**latest, b"last": b"end"}


def await_compacted(data: Path, within_s: float = 60) -> None:
    """Until nothing is left to do: what is there is small, and what was there before is gone."""
    deadline = time.monotonic() + within_s
    while True:
        logs = sorted((data / f"{TOPIC}-0").glob("*.log*"))
        sealed = logs[:-1]
        if sealed and all(log.suffix == ".log" for log in logs) and sum(log.stat().st_size for log in sealed) < 15_000:
            return
        assert time.monotonic() < deadline, [(log.name, log.stat().st_size) for log in logs]
        time.sleep(0.02)


def read(bootstrap: str, start: int = 0) -> list[tuple[int, bytes, bytes | None]]:
    """To the end, which is where the client says so: the last offsets may be missing."""
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
