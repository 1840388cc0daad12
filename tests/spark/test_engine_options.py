"""Positions, packed tasks, ticks and aligned topics in Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.client.admin import Admin
from support.topics import Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BASE_MS = 1_700_000_000_000


def stream(spark: SparkSession, cluster: Admin, **options: str) -> DataFrame:
    reader = spark.readStream.format("odradek").options(startingOffsets="earliest", includePosition="true", **options)
    return reader.option("kafka.bootstrap.servers", cluster.bootstrap).load()


class Collected:
    """The rows of each micro-batch, sorted by position, and the number of tasks that read them."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.tasks: list[int] = []

    def __call__(self, rows: DataFrame, _: int) -> None:
        self.tasks.append(rows.rdd.getNumPartitions())
        self.batches.append(rows.orderBy("position").select("topic", "partition", "offset", "timestamp").collect())


def wait(query: StreamingQuery, until: Callable[[], bool]) -> None:
    while not until():
        assert not query.awaitTermination(0.05), "the query ended"


def test_positions_order_two_topics_and_packed_tasks_read_them(
    spark: SparkSession, cluster: Admin, records: Records, tmp_path: Path
):
    cluster.create_topic("left", 2)
    cluster.create_topic("right", 1)
    for second in range(40):
        records.put("left", ["v"], partition=second % 2, timestamp_ms=BASE_MS + second * 1000)
    for second in range(30, 60):
        records.put("right", ["v"], timestamp_ms=BASE_MS + second * 1000)
    shared = {"alignTopics": "left,right", "maxOffsetsPerTrigger": "25", "packRecords": "1000"}
    left = stream(spark, cluster, subscribe="left", positionRank="0", **shared)
    right = stream(spark, cluster, subscribe="right", positionRank="1", **shared)
    seen = Collected()

    query = (
        left.union(right)
        .writeStream.foreachBatch(seen)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)

    read = [(int(row.timestamp.timestamp()), row.topic) for batch in seen.batches for row in batch]
    assert read == sorted(read)
    assert len(read) == 70
    assert len(seen.batches) >= 3
    assert max(len(batch) for batch in seen.batches) <= 25
    assert max(seen.tasks) == 2  # one for each source, for any number of partitions


def test_ticks_start_batches_without_records(spark: SparkSession, cluster: Admin, records: Records, tmp_path: Path):
    cluster.create_topic("idle", 1)
    file = tmp_path / "now"
    seen = Collected()
    rows = stream(spark, cluster, subscribe="idle", tickFile=str(file))
    query = rows.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def told() -> list[str]:
        return [row.timestamp.isoformat() for batch in seen.batches for row in batch if row.partition == -1]

    file.write_text("2024-05-01T12:00:00Z")
    wait(query, lambda: told() == ["2024-05-01T12:00:00"])
    records.put("idle", ["v"])
    wait(query, lambda: any(row.partition == 0 for batch in seen.batches for row in batch))
    file.write_text("2024-05-01T13:00:00Z")
    wait(query, lambda: told() == ["2024-05-01T12:00:00", "2024-05-01T13:00:00"])
    query.stop()


def test_tick_batches_have_no_rows_without_positions(
    spark: SparkSession, cluster: Admin, records: Records, tmp_path: Path
):
    cluster.create_topic("clock-only", 1)
    counts: list[int] = []
    rows = (
        spark.readStream.format("odradek")
        .options(subscribe="clock-only", startingOffsets="earliest", tickEvery="20")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .load()
    )
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )

    wait(query, lambda: len(counts) >= 3)
    records.put("clock-only", ["v"])
    wait(query, lambda: sum(counts) == 1)
    query.stop()
