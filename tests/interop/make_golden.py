"""Lets Apache Kafka write the directories in tests/formats/golden: `python tests/interop/make_golden.py [NAME…]`.

Needs Java and Maven. Kafka's index files are mostly zeros until it stops cleanly, hence the compression.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support import small_world, transactional_world
from support.kafka_process import KafkaProcess
from support.waiting import wait_until

GOLDEN = Path(__file__).parents[1] / "formats" / "golden"
# As after weeks: a snapshot has replaced the beginning of the metadata log.
SOON_AGED = {
    "metadata.log.max.snapshot.interval.ms": "20000",
    "metadata.log.segment.ms": "10000",
    "metadata.max.retention.ms": "1000",
    "internal.metadata.delete.delay.millis": "0",
}


# The log cleaner runs as soon as a segment is full.
SOON_COMPACTED = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.segment.delete.delay.ms": "0",
}
# Producers with open transactions: if they were released, they would wait for Kafka.
KEPT: list[Producer] = []
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.0001",
    "segment.ms": "100",
    # not supported by Odradek
    "compression.type": "gzip",
}


def main() -> None:
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for name, (write, config) in DIRECTORIES.items():
            if not only or name in only:
                write(KafkaProcess(directory / name, configured_voters=name == "configured-voters", config=config))
        # Skip the clean exit: the consumer of the killed broker would try to leave its group.
        os._exit(0)


def make(kafka: KafkaProcess) -> None:
    kafka.start()
    member = small_world.fill(kafka.bootstrap)
    if kafka.data.name == "killed":
        kafka.kill()
    else:
        member.close()
        if kafka.data.name == "aged":
            await_age(kafka.data / "__cluster_metadata-0")
        kafka.stop()
    pack(kafka.data)


def make_compacted(kafka: KafkaProcess) -> None:
    """Batches of ten records with few keys. A KIP-848 group has read them."""
    kafka.start()
    config = small_world.client(kafka.bootstrap)
    admin = AdminClient(config)
    admin.create_topics([NewTopic("compacted", 1, config=COMPACTED)])["compacted"].result(20)
    producer = Producer(config | {"enable.idempotence": True, "linger.ms": 50})
    for number in range(120):
        key = f"key {number % (3 if number % 20 < 10 else 10)}"
        producer.produce("compacted", f"value {number}" * 5, key, timestamp=small_world.FIRST_MS + number)
        if number % 10 == 9:
            producer.flush(20)
    once = Producer(config | {"enable.idempotence": True})
    once.produce("compacted", "from a producer that is not heard of again", "key 0", timestamp=small_world.FIRST_MS)
    once.flush(20)
    for number in range(121, 131):
        producer.produce("compacted", f"value {number}", f"key {number % 10}", timestamp=small_world.FIRST_MS + number)
    producer.produce("compacted", None, "key 9", timestamp=small_world.FIRST_MS + 131)
    producer.flush(20)
    member = Consumer(small_world.client(kafka.bootstrap, "modern") | {"group.protocol": "consumer"})
    member.subscribe(["compacted"])
    while member.position([TopicPartition("compacted", 0)])[0].offset < 132:
        member.poll(1)
    member.commit(asynchronous=False)
    member.close()
    checkpoint = kafka.data / "cleaner-offset-checkpoint"
    wait_until(lambda: "compacted 0 121" in checkpoint.read_text(), "the compaction of the topic", within_s=600)
    kafka.stop()
    pack(kafka.data)


def make_transactional(kafka: KafkaProcess) -> None:
    """With open transactions."""
    kafka.start()
    producers = transactional_world.fill(kafka.bootstrap)
    transactional_world.check(kafka.bootstrap)
    transactional_world.await_compacted(kafka.data)
    if kafka.data.name == "transactions":
        kafka.stop()
    else:
        kafka.kill()
    pack(kafka.data)
    KEPT.extend(producers)


def await_age(metadata: Path) -> None:
    first = metadata / "00000000000000000000.log"
    wait_until(lambda: not first.exists(), "the deletion of the first segment", within_s=600)


def pack(directory: Path) -> None:
    archive = GOLDEN / f"{directory.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "delete" not in str(path) and path.name != ".lock":
                packed.write(path, path.relative_to(directory))
    print(f"{archive.name}: {archive.stat().st_size} bytes")


DIRECTORIES = {
    "stopped": (make, {}),
    "configured-voters": (make, {}),
    "aged": (make, SOON_AGED),
    "compacted": (make_compacted, SOON_COMPACTED),
    "transactions": (make_transactional, SOON_COMPACTED),
    "transactions-killed": (make_transactional, SOON_COMPACTED),
    "killed": (make, {}),
}

if __name__ == "__main__":
    main()
