"""Pipelines for Spark's Kafka connector give the same results with format("odradek"), on both brokers.

The connector is a jar of Spark, fetched with Maven. Both connectors run in one session, on Apache Kafka and on Odradek.
Spark's connector also runs on three Odradek nodes, one of which is killed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from odradek.spark.session import local_session
from odradek.testing import Embedded
from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from kafka_jars import spark_connector

from support.waiting import wait_until

CONNECTORS = ("kafka", "odradek")
BEGIN_MS = int(time.time() * 1000) - 3_600_000  # not older than a week, or retention would delete the records
RECORDS = 300
# On a busy machine Kafka's session may expire after 9 s, and records that are produced meanwhile time out.
PATIENT = {"broker.session.timeout.ms": "120000"}
LATER = {"kafka.delivery.timeout.ms": "240000"}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    jars = ",".join(map(str, spark_connector()))
    session = local_session("interop", master="local[2]", conf={"spark.jars": jars})
    yield session
    session.stop()


@pytest.fixture(scope="module", params=["on-odradek", "on-kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("broker") / "data"
    patient = KafkaProcess(data, config=PATIENT)
    with BrokerProcess(data) if request.param == "on-odradek" else patient as broker:
        _fill(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    with Embedded(brokers=3) as cluster:
        _fill(cluster.bootstrap_servers, copies=3)
        yield cluster


def _fill(bootstrap: str, copies: int = 1) -> None:
    """Two topics: records with and without keys, nulls, headers, all codecs, timestamps a second apart."""
    _create(bootstrap, NewTopic("orders", 3, copies), NewTopic("orders-eu", 1, copies))
    for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for index in range(number, RECORDS, 5):
            producer.produce(
                "orders" if index % 4 else "orders-eu",
                key=None if index % 7 == 0 else f"customer-{index % 11}",
                value=None if index % 13 == 0 else f"order {index}",
                partition=index % 3 if index % 4 else 0,
                headers=[("codec", codec.encode()), ("empty", None)] if index % 2 else None,
                timestamp=BEGIN_MS + index * 1000,
            )
        assert producer.flush(60) == 0


READS = {
    "subscribe": {"subscribe": "orders,orders-eu"},
    "pattern": {"subscribePattern": "orders.*"},
    "assign": {"assign": json.dumps({"orders": [0, 2]})},
    "headers": {"subscribe": "orders", "includeHeaders": "true"},
    "offsets": {
        "subscribe": "orders",
        "startingOffsets": json.dumps({"orders": {"0": 5, "1": -2, "2": 7}}),
        "endingOffsets": json.dumps({"orders": {"0": 9, "1": -1, "2": 8}}),
    },
    "timestamps": {
        "subscribe": "orders,orders-eu",
        "startingTimestamp": str(BEGIN_MS + 100_000),
        "endingTimestamp": str(BEGIN_MS + 200_000),
    },
    "timestamps by partition": {
        "subscribe": "orders-eu",
        "startingOffsetsByTimestamp": json.dumps({"orders-eu": {"0": BEGIN_MS + 100_000}}),
        "endingOffsetsByTimestamp": json.dumps({"orders-eu": {"0": BEGIN_MS + 200_000}}),
    },
    "more tasks than partitions": {"subscribe": "orders", "minPartitions": "7"},
    "java names": {
        "subscribe": "orders",
        "kafka.max.partition.fetch.bytes": "200000",
        "kafka.fetch.max.wait.ms": "100",
    },
}


@pytest.mark.parametrize("options", READS.values(), ids=READS)
def test_both_connectors_read_the_same_batch(session: SparkSession, bootstrap: str, options: dict[str, str]) -> None:
    theirs, ours = (
        session.read.format(connector).option("kafka.bootstrap.servers", bootstrap).options(**options).load()
        for connector in CONNECTORS
    )
    assert ours.schema == theirs.schema
    found = _rows(ours)
    assert found == _rows(theirs)
    assert found


REFUSALS = {
    "no bootstrap servers": {"subscribe": "orders", "kafka.bootstrap.servers": ""},
    "no topic": {},
    "two ways to name topics": {"subscribe": "orders", "subscribePattern": "o.*"},
    "latest as the start of a batch": {"subscribe": "orders", "startingOffsets": "latest"},
    "earliest as the end of a batch": {"subscribe": "orders", "endingOffsets": "earliest"},
    "a partition without an offset": {"subscribe": "orders", "startingOffsets": json.dumps({"orders": {"0": 5}})},
    "a client's own offset reset": {"subscribe": "orders", "kafka.auto.offset.reset": "earliest"},
    "a deserializer": {"subscribe": "orders", "kafka.key.deserializer": "x"},
    "commits of the client's own": {"subscribe": "orders", "kafka.enable.auto.commit": "true"},
    "no partitions at all": {"subscribe": "orders", "minPartitions": "0"},
}


@pytest.mark.parametrize("options", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_both_connectors_refuse_the_same_options(
    session: SparkSession, bootstrap: str, connector: str, options: dict[str, str]
) -> None:
    reader = session.read.format(connector).option("kafka.bootstrap.servers", bootstrap).options(**options)
    with pytest.raises((PySparkException, Py4JJavaError)):
        reader.load().collect()


@pytest.mark.parametrize("connector", CONNECTORS)
def test_stream_copies_a_topic_and_resumes(
    session: SparkSession, bootstrap: str, connector: str, tmp_path: Path
) -> None:
    """Copies all records in small batches through the sink. A second run resumes and copies nothing again."""
    output = f"copies-{connector}"
    _create(bootstrap, NewTopic(output, 2, 1))
    kafka = {"kafka.bootstrap.servers": bootstrap}
    source = (
        session.readStream.format(connector)
        .options(
            **kafka, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="50", includeHeaders="true"
        )
        .load()
    )
    sink = (
        source.select("key", "value", "headers")
        .writeStream.format(connector)
        .options(**kafka, topic=output, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
    )
    query = sink.start()
    assert query.awaitTermination(90)
    assert len([progress for progress in query.recentProgress if progress["numInputRows"]]) > 3
    copied = session.read.format(connector).options(**kafka, subscribe=output, includeHeaders="true").load()
    original = session.read.format(connector).options(**kafka, subscribe="orders", includeHeaders="true").load()
    assert _rows(copied, "key", "value", "headers") == _rows(original, "key", "value", "headers")
    assert sink.start().awaitTermination(90)
    assert copied.count() == original.count()


def test_both_sinks_write_a_key_to_the_same_partition(session: SparkSession, bootstrap: str) -> None:
    rows = session.range(500).select(F.concat(F.lit("key-"), "id").alias("key"), F.lit("x").alias("value"))
    places = []
    for connector in CONNECTORS:
        topic = f"placed-{connector}"
        _create(bootstrap, NewTopic(topic, 7, 1))
        kafka = {"kafka.bootstrap.servers": bootstrap}
        rows.write.format(connector).mode("append").options(**kafka, **LATER, topic=topic).save()
        written = session.read.format("kafka").options(**kafka, subscribe=topic).load()
        places.append({bytes(row.key): row.partition for row in written.collect()})
    assert places[0] == places[1]
    assert len(places[0]) == 500


def test_spark_connector_reads_from_three_nodes(session: SparkSession, cluster: Embedded) -> None:
    found = _read(session, cluster, subscribe="orders,orders-eu").collect()
    assert len(found) == RECORDS
    texts = [f"order {index}" for index in range(RECORDS) if index % 13]
    assert sorted(bytes(row.value).decode() for row in found if row.value is not None) == sorted(texts)


def test_spark_connector_continues_when_a_node_is_killed(
    session: SparkSession, cluster: Embedded, tmp_path: Path
) -> None:
    """Copies a topic in small batches. The node is killed after the first batch, and restarted."""
    _create(cluster.bootstrap_servers, NewTopic("survivors", 2, 3))
    kafka = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    query = (
        session.readStream.format("kafka")
        .options(**kafka, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="20")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .options(**kafka, topic="survivors", checkpointLocation=str(tmp_path))
        .start()
    )
    wait_until(lambda: query.recentProgress, "the first micro-batch", within_s=300, every_s=0.1)
    cluster.nodes[1].kill()
    cluster.nodes[1].start()
    query.processAllAvailable()
    query.stop()
    copied, original = (
        _rows(_read(session, cluster, subscribe=topic), "key", "value") for topic in ("survivors", "orders")
    )
    # Spark's sink is at-least-once: records that are not acknowledged in time are written again.
    assert sorted(dict.fromkeys(copied)) == sorted(dict.fromkeys(original))
    assert len(copied) >= len(original)


def _read(session: SparkSession, cluster: Embedded, **options: str) -> DataFrame:
    kafka = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return session.read.format("kafka").options(**kafka, **options).load()


def _create(bootstrap: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(list(topics)).values():
        future.result(30)


def _rows(frame: DataFrame, *columns: str) -> list[str]:
    rows = frame.select(F.to_json(F.struct(*columns or frame.columns), {"ignoreNullFields": "false"}))
    return sorted(row[0] for row in rows.collect())
