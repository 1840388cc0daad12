"""Topics with compression.type in Odradek and Apache Kafka: equal batches on disk, and Java reads those of Odradek."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess, dump
from support.kafka_tools import KafkaTools

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TYPES = {
    "uncompressed": {},
    "gzip": {"compression.gzip.level": "9"},
    "snappy": {},
    "lz4": {"compression.lz4.level": "12"},
    "zstd": {"compression.zstd.level": "-5"},
    "producer": {},
}
VALUES = [f"{number:06d}" * 100 for number in range(300)]
# Fields of a batch that must be equal. The size depends on the compression library.
BATCH = re.compile(
    r"baseOffset: \d+ lastOffset: \d+ count: \d+ baseSequence: \S+ lastSequence: \S+ |"
    r"CreateTime: \d+|compresscodec: \w+|isvalid: \w+|isTransactional: \w+ isControl: \w+"
)


def fill(bootstrap: str) -> None:
    """Writes one batch per codec to a topic of each compression type, with fixed timestamps."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(f"as-{name}", 1, 1, config={"compression.type": name, **TYPES[name]}) for name in TYPES]
    for created in admin.create_topics(topics).values():
        created.result(30)
    for codec in CODECS:
        config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 500}
        producer = Producer({**config, "enable.idempotence": True})
        for name in TYPES:
            for number, value in enumerate(VALUES):
                stamp = 1_700_000_000_000 + number * (-1) ** number
                producer.produce(f"as-{name}", value, key=str(number), headers={"h": codec}, timestamp=stamp)
        assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("ours") / "data") as broker:
        fill(broker.bootstrap)
        yield broker


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("kafka") / "data"
    kafka = KafkaProcess(data).start()
    fill(kafka.bootstrap)
    kafka.stop()
    return data


def batches(data: Path, name: str) -> list[list[str]]:
    text = dump(files=[data / f"as-{name}-0" / f"{0:020d}.log"])
    return [found for line in text.splitlines() if (found := BATCH.findall(line))]


@pytest.mark.parametrize("name", TYPES)
def test_recompressed_batches_equal_those_of_kafka(ours: BrokerProcess, kafkas: Path, name: str) -> None:
    found = batches(ours.data, name)
    assert len(found) == len(CODECS)
    assert all("isvalid: true" in batch for batch in found)
    assert found == batches(kafkas, name)


@pytest.mark.parametrize("name", TYPES)
def test_java_client_reads_recompressed_batches(ours: BrokerProcess, name: str) -> None:
    count = len(CODECS) * len(VALUES)
    with KafkaTools() as tools:
        printed = tools.run(
            *("kafka-console-consumer", "--bootstrap-server", ours.bootstrap, "--topic", f"as-{name}"),
            *("--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"),
        )
    assert [line for line in printed.text.splitlines() if line.isdigit()] == VALUES * len(CODECS)
