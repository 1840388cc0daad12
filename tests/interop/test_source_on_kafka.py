"""The Spark source on Apache Kafka with transactions: it reads committed records and stops before open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from odradek.client.admin import Admin
from odradek.spark.batch_reader import OdradekBatchReader
from odradek.spark.options import batch_options, stream_options
from odradek.spark.stream_reader import OdradekStreamReader
from support.kafka_process import KafkaProcess

COMMITTED, ALL = "read_committed", "read_uncommitted"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("kafka") / "data"
    with KafkaProcess(data) as kafka:
        yield kafka.bootstrap


def transaction(bootstrap: str, values: list[str], name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce("payments", value, partition=0)
    producer.flush(60)
    return producer


def read(bootstrap: str, isolation: str, **more: str) -> list[str]:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "payments", "kafka.isolation.level": isolation, **more}
    reader = OdradekBatchReader(batch_options(given))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row["value"].decode() for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("way", [{}, {"kafka.check.crcs": "true"}], ids=["fast", "librdkafka"])
def test_source_reads_transactions_by_isolation_level(bootstrap: str, way: dict[str, str]):
    cluster = Admin(bootstrap)
    cluster.delete_topics(["payments"])
    while "payments" in cluster.topics():
        pass
    cluster.create_topic("payments", 1)
    transaction(bootstrap, ["committed 1", "committed 2"], "a").commit_transaction(30)
    transaction(bootstrap, ["aborted 1", "aborted 2"], "b").abort_transaction(30)
    still_open = transaction(bootstrap, ["open 1", "open 2"], "c")
    transaction(bootstrap, ["committed behind"], "a").commit_transaction(30)

    assert read(bootstrap, COMMITTED, **way) == ["committed 1", "committed 2"]
    everything = ["committed 1", "committed 2", "aborted 1", "aborted 2", "open 1", "open 2", "committed behind"]
    assert read(bootstrap, ALL, **way) == everything

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "payments", "startingOffsets": "earliest"}
    for isolation, end in ((COMMITTED, 6), (ALL, 10)):
        stream = OdradekStreamReader(stream_options(options | {"kafka.isolation.level": isolation}))
        assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable()) == {"payments": {"0": end}}

    still_open.abort_transaction(30)
    assert read(bootstrap, COMMITTED, **way) == ["committed 1", "committed 2", "committed behind"]
