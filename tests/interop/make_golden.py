"""Lets Apache Kafka write the directories in tests/formats/golden: `python tests/interop/make_golden.py`.

Needs Java and Maven. Kafka's index files are mostly zeros until it stops cleanly, hence the compression.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support import small_world
from support.kafka_process import KafkaProcess

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
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0.0001",
    "segment.ms": "100",
    # not supported by Odradek
    "compression.type": "gzip",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        make(KafkaProcess(directory / "stopped"))
        make(KafkaProcess(directory / "configured-voters", configured_voters=True))
        make(KafkaProcess(directory / "aged", config=SOON_AGED))
        make_compacted(KafkaProcess(directory / "compacted", config=SOON_COMPACTED))
        make(KafkaProcess(directory / "killed"))
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
    while "compacted 0 121" not in (kafka.data / "cleaner-offset-checkpoint").read_text():
        time.sleep(1)
    kafka.stop()
    pack(kafka.data)


def await_age(metadata: Path) -> None:
    while (metadata / "00000000000000000000.log").exists():
        time.sleep(1)


def pack(directory: Path) -> None:
    archive = GOLDEN / f"{directory.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "delete" not in str(path) and path.name != ".lock":
                packed.write(path, path.relative_to(directory))
    print(f"{archive.name}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
