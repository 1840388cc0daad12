"""The source in Spark: found by its name, read as a batch and as a stream, resumed, and its errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odradek.client.admin import Admin
from odradek.spark.schema import spark_schema
from support.topics import Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def batch(spark: SparkSession, cluster: Admin, **options: str) -> DataFrame:
    return spark.read.format("odradek").options(**options).option("kafka.bootstrap.servers", cluster.bootstrap).load()


def stream(spark: SparkSession, cluster: Admin, **options: str) -> DataFrame:
    reader = spark.readStream.format("odradek").options(**options)
    return reader.option("kafka.bootstrap.servers", cluster.bootstrap).load()


def test_a_batch_found_by_name_has_the_columns_of_the_kafka_connector(
    spark: SparkSession, cluster: Admin, records: Records
):
    cluster.create_topic("batch", 2)
    records.put("batch", ["a"], key="k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_000)
    records.put("batch", [None], partition=1)

    rows = batch(spark, cluster, subscribe="batch", includeHeaders="true")
    assert rows.schema == spark_schema(True)
    first, second = rows.orderBy("partition").collect()
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (b"k", b"a", "batch", 0, 0)
    assert (first.timestamp.isoformat(), first.timestampType) == ("2023-11-14T22:13:20", 0)
    assert [(header.key, header.value) for header in first.headers] == [("h", b"1")]
    assert (second.key, second.value, second.headers) == (None, None, None)

    # A second count of the same DataFrame includes records that arrived in between.
    records.put("batch", ["b"] * 3)
    assert rows.count() == 5
    assert batch(spark, cluster, subscribe="batch").schema == spark_schema(False)
    assert batch(spark, cluster, subscribePattern="^no-such-topic$").count() == 0


def test_wrong_options_fail_before_a_query_starts(spark: SparkSession, cluster: Admin):
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=r"did you mean subscribe\?"):
        batch(spark, cluster, subscrib="t")
    with pytest.raises(AnalysisException, match=r"ssl\.engine\.factory\.class"):
        stream(spark, cluster, subscribe="t", **{"kafka.ssl.engine.factory.class": "X"})


class Collected:
    """The values of each micro-batch, in its order."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, rows: DataFrame, _: int) -> None:
        self.batches.append(sorted(row.value.decode() for row in rows.select("value").collect()))

    @property
    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]


def wait(query: StreamingQuery, until: Callable[[], bool]) -> None:
    while not until():
        assert not query.awaitTermination(0.05), "the query ended"


def test_stream_from_latest_resumes_from_its_checkpoint(
    spark: SparkSession, cluster: Admin, records: Records, tmp_path: Path
):
    cluster.create_topic("live", 2)
    records.put("live", ["old"] * 3)
    seen = Collected()
    rows = stream(spark, cluster, subscribe="live", **{"kafka.group.id": "live-group"})
    writer = rows.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path))

    query = writer.start()
    wait(query, lambda: len(seen.batches) == 1)
    assert seen.batches == [[]]  # so that the checkpoint keeps the "latest" offset
    records.put("live", ["a", "b"], partition=1)
    wait(query, lambda: seen.values == ["a", "b"])
    # An idle query shows no lag.
    wait(query, lambda: cluster.committed("live-group") == {("live", 0): 3, ("live", 1): 2})
    assert '"live": {"0": 3, "1": 2}' in query.lastProgress.sources[0].latestOffset
    query.stop()

    records.put("live", ["c"])
    records.put("live", ["d"], partition=1)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(30)
    assert seen.values == ["a", "b", "c", "d"]
    assert cluster.committed("live-group") == {("live", 0): 4, ("live", 1): 3}


def test_limits_apply_to_batches_and_an_ending_option_fails_the_stream(
    spark: SparkSession, cluster: Admin, records: Records, tmp_path: Path
):
    from pyspark.errors import StreamingQueryException

    cluster.create_topic("shaped", 1)
    records.put("shaped", [str(number) for number in range(7)])
    seen = Collected()
    rows = stream(
        spark, cluster, subscribe="shaped", startingOffsets="earliest", maxOffsetsPerTrigger="3", minPartitions="2"
    )
    query = (
        rows.writeStream.foreachBatch(seen)
        .option("checkpointLocation", str(tmp_path / "shaped"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(30)
    assert seen.batches == [["0", "1", "2"], ["3", "4", "5"], ["6"]]

    wrong = stream(spark, cluster, subscribe="shaped", endingOffsets="latest").writeStream.format("noop")
    query = wrong.option("checkpointLocation", str(tmp_path / "wrong")).start()
    with pytest.raises(StreamingQueryException, match="endingOffsets: a streaming query has no end"):
        query.awaitTermination(30)


@pytest.mark.parametrize(
    ("used", "never"),
    [
        ("import pyspark_odradek", {"numpy", "pyarrow", "pandas", "confluent_kafka"}),
        ("pyspark_odradek.DefaultSource(options).schema()", {"numpy", "pyarrow", "pandas"}),
        ("import odradek.spark.stream_reader, odradek.spark.topics_view", {"pandas"}),
    ],
)
def test_planning_process_imports_only_what_it_needs(used: str, never: set[str]):
    """Each `load()` and each query starts Python processes and waits for their imports."""
    script = f"""
import sys
import pyspark_odradek
from odradek.spark.schema import spark_schema
options, schema = {{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}}, spark_schema(False)
{used}
sys.exit(", ".join(sorted({never!r} & sys.modules.keys())))
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""
