"""The sink in Spark: batches and streaming queries, what is refused on the driver, what fails in a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.testing import Embedded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = """
    key string, value string, topic string, partition int, headers array<struct<key: string, value: binary>>
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded(config={"auto.create.topics.enable": False, "num.partitions": 3}) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Embedded) -> Admin:
    return Admin(broker.bootstrap_servers)


def write(rows: DataFrame, cluster: Admin, **options: str) -> None:
    writer = rows.write.format("odradek").mode("append").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer.options(**options).save()


def stored(cluster: Admin, topic: str) -> list[tuple[Any, ...]]:
    return [(m.partition(), m.key(), m.value(), m.headers()) for m in committed(cluster, topic)]


def test_a_batch_is_written_with_all_its_columns(spark: SparkSession, cluster: Admin) -> None:
    cluster.create_topic("one")
    cluster.create_topic("two")
    rows = [
        ("k", "v", "one", 2, [("h", b"1"), ("none", None)]),
        (None, "no key", "one", 0, None),
        ("gone", None, "two", 1, []),
        ("a key decides", "v", "two", None, None),
    ]
    write(spark.createDataFrame(rows, ROWS).repartition(2), cluster)
    assert sorted(stored(cluster, "one")) == [
        (0, None, b"no key", None),
        (2, b"k", b"v", [("h", b"1"), ("none", None)]),
    ]
    assert {(key, value) for _, key, value, _ in stored(cluster, "two")} == {
        (b"gone", None),
        (b"a key decides", b"v"),
    }


def test_no_task_starts_when_rows_or_options_are_wrong(spark: SparkSession, cluster: Admin) -> None:
    from pyspark.errors import AnalysisException

    rows = spark.sql("select 'v' value")
    with pytest.raises(AnalysisException, match="neither an option topic nor a column topic"):
        write(rows, cluster)
    with pytest.raises(AnalysisException, match=r"the column value is int, and must be string or binary"):
        write(spark.sql("select 1 value"), cluster, topic="t")
    with pytest.raises(AnalysisException, match=r"did you mean topic\?"):
        write(rows, cluster, topc="t")
    with pytest.raises(AnalysisException, match=r"a topic cannot be overwritten"):
        rows.write.format("odradek").mode("overwrite").options(
            **{"kafka.bootstrap.servers": cluster.bootstrap}, topic="t"
        ).save()


def test_failed_delivery_fails_the_job_with_its_message(spark: SparkSession, cluster: Admin) -> None:
    from pyspark.errors import PySparkException

    quick = {"kafka.topic.metadata.propagation.max.ms": "100"}
    with pytest.raises(PySparkException, match=r"4 records were not delivered; the first to topic 'nowhere'"):
        write(spark.range(4).selectExpr("'v' value").coalesce(1), cluster, topic="nowhere", **quick)


def test_a_stream_is_copied_and_resumes_from_its_checkpoint(
    spark: SparkSession, cluster: Admin, tmp_path: Path
) -> None:
    cluster.create_topic("in", 2)
    cluster.create_topic("out", 2)
    for part in range(2):
        produce(cluster, "in", [f"{number}" for number in range(part * 100, part * 100 + 100)])
        copy(spark, cluster, tmp_path)
        assert sorted(int(value) for _, _, value, _ in stored(cluster, "out")) == list(range(part * 100 + 100))
    assert all(headers == [("h", b"1")] for *_, headers in stored(cluster, "out"))


@pytest.mark.parametrize(("guarantee", "times"), [({}, 1), ({"delivery.guarantee": "at-least-once"}, 2)])
def test_micro_batch_that_is_repeated_after_a_crash(
    spark: SparkSession, cluster: Admin, tmp_path: Path, guarantee: dict[str, str], times: int
) -> None:
    for topic in ("in", "out"):
        cluster.delete_topics([topic])
        cluster.create_topic(topic, 2)
    produce(cluster, "in", [f"{number}" for number in range(100)])
    copy(spark, cluster, tmp_path, **guarantee)
    # The driver died after the tasks had written, and before Spark recorded that the micro-batch is done.
    for commit in (tmp_path / "commits").glob("*0*"):
        commit.unlink()
    copy(spark, cluster, tmp_path, **guarantee)
    expected = sorted([*range(100)] * times)
    assert sorted(int(message.value()) for message in committed(cluster, "out")) == expected


def test_deleted_checkpoint_is_refused_until_the_sink_has_another_name(
    spark: SparkSession, cluster: Admin, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    for topic in ("in", "out"):
        cluster.delete_topics([topic])
        cluster.create_topic(topic, 1)
    produce(cluster, "in", ["1"])
    copy(spark, cluster, tmp_path / "checkpoint", **{"delivery.sink": "the first"})
    rmtree(tmp_path / "checkpoint")
    with pytest.raises(PySparkException, match=r"another checkpoint, which was deleted.*option delivery.sink"):
        copy(spark, cluster, tmp_path / "checkpoint", **{"delivery.sink": "the first"})
    copy(spark, cluster, tmp_path / "checkpoint")  # named after its query, which is another one now
    assert [message.value() for message in committed(cluster, "out")] == [b"1", b"1"]


def test_checkpoint_that_is_one_micro_batch_too_old_is_refused(
    spark: SparkSession, cluster: Admin, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    for topic in ("in", "out"):
        cluster.delete_topics([topic])
        cluster.create_topic(topic, 1)
    produce(cluster, "in", ["1"])
    copy(spark, cluster, tmp_path / "checkpoint")
    copytree(tmp_path / "checkpoint", tmp_path / "backup")
    produce(cluster, "in", ["2"])
    copy(spark, cluster, tmp_path / "checkpoint")
    rmtree(tmp_path / "checkpoint")
    (tmp_path / "backup").rename(tmp_path / "checkpoint")
    produce(cluster, "in", ["3"])
    with pytest.raises(PySparkException, match="other offsets: it is older than the results"):
        copy(spark, cluster, tmp_path / "checkpoint")


def committed(cluster: Admin, topic: str) -> list[Message]:
    """What a reader with read_committed sees."""
    ends = cluster.end_offsets(topic)
    config = {"isolation.level": "read_committed", "enable.partition.eof": True, "group.id": "committed"}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **config})
    consumer.assign([TopicPartition(topic, index, 0) for index in ends])
    found: list[Message] = []
    while ends:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append(message)
        elif message.offset() >= ends[message.partition()]:  # the end, and not only of what is committed so far
            del ends[message.partition()]
    consumer.close()
    return found


def copy(spark: SparkSession, cluster: Admin, checkpoint: Path, **options: str) -> None:
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    rows = reader.options(subscribe="in", startingOffsets="earliest", includeHeaders="true").load()
    writer = rows.select("key", "value", "headers").writeStream.format("odradek")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", "out").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def test_complete_mode_appends_the_result_and_update_mode_needs_foreach_batch(
    spark: SparkSession, cluster: Admin, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    cluster.create_topic("words", 1)
    cluster.create_topic("counts", 1)
    produce(cluster, "words", ["a", "b", "a"])
    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    words = (
        reader.options(subscribe="words", startingOffsets="earliest").load().selectExpr("cast(value as string) word")
    )
    counts = words.groupBy("word").count().selectExpr("word key", "cast(count as string) value")
    writer = counts.writeStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer = writer.option("topic", "counts").trigger(availableNow=True)

    complete = writer.outputMode("complete").option("checkpointLocation", str(tmp_path / "complete")).start()
    assert complete.awaitTermination(60)
    assert sorted((key, value) for _, key, value, _ in stored(cluster, "counts")) == [(b"a", b"2"), (b"b", b"1")]

    refused = writer.outputMode("update").option("checkpointLocation", str(tmp_path / "refused")).start()
    with pytest.raises(PySparkException, match="does not support Update mode"):
        refused.awaitTermination(60)

    def write_batch(rows: DataFrame, _: int) -> None:
        write(rows, cluster, topic="updates")

    cluster.create_topic("updates", 1)
    updates = counts.writeStream.outputMode("update").foreachBatch(write_batch).trigger(availableNow=True)
    assert updates.option("checkpointLocation", str(tmp_path / "update")).start().awaitTermination(60)
    assert sorted((key, value) for _, key, value, _ in stored(cluster, "updates")) == [(b"a", b"2"), (b"b", b"1")]


def produce(cluster: Admin, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, key=value, headers=[("h", b"1")])
    producer.flush()
