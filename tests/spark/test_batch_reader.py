"""How a batch is planned on a real broker. No JVM needed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import InputPartition

from odradek.client.admin import Admin
from odradek.spark.batch_reader import OdradekBatchReader
from odradek.spark.errors import RefusedOption, TopicMissing
from odradek.spark.options import batch_options
from odradek.testing import Embedded
from support.topics import Records


@pytest.fixture(scope="module")
def cluster() -> Iterator[Admin]:
    with Embedded(config={"auto.create.topics.enable": False}) as broker:
        cluster, records = Admin(broker.bootstrap_servers), Records(broker.bootstrap_servers)
        cluster.create_topic("sales", 2)
        for number in range(10):
            records.put("sales", ["v"], partition=0, timestamp_ms=1000 + number)
        records.put("sales", ["v"] * 2, partition=1, timestamp_ms=500)
        yield cluster


def batch(cluster: Admin, **options: str) -> OdradekBatchReader:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "sales", "fetchOffset.retryIntervalMs": "1"}
    return OdradekBatchReader(batch_options(given | options))


def planned(cluster: Admin, **options: str) -> list[str]:
    return [str(part.value) for part in batch(cluster, **options).partitions()]


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({}, ["sales-0 [0, 10)", "sales-1 [0, 2)"]),
        ({"minPartitions": "3"}, ["sales-0 [0, 5)", "sales-0 [5, 10)", "sales-1 [0, 2)"]),
        ({"maxRecordsPerPartition": "6"}, ["sales-0 [0, 5)", "sales-0 [5, 10)", "sales-1 [0, 2)"]),
        ({"startingOffsets": '{"sales":{"0":4,"1":-2}}'}, ["sales-0 [4, 10)", "sales-1 [0, 2)"]),
        ({"endingOffsets": '{"sales":{"0":4,"1":-1}}'}, ["sales-0 [0, 4)", "sales-1 [0, 2)"]),
        ({"endingOffsets": '{"sales":{"0":0,"1":1}}'}, ["sales-1 [0, 1)"]),
        (
            {"startingTimestamp": "1004", "startingOffsetsByTimestampStrategy": "latest", "endingTimestamp": "1006"},
            ["sales-0 [4, 6)"],
        ),
        ({"endingTimestamp": "9999"}, ["sales-0 [0, 10)", "sales-1 [0, 2)"]),
        ({"endingOffsetsByTimestamp": '{"sales":{"0":1002,"1":9999}}'}, ["sales-0 [0, 2)", "sales-1 [0, 2)"]),
    ],
)
def test_batch_ranges_follow_the_options(cluster: Admin, options: dict[str, str], ranges: list[str]):
    assert planned(cluster, **options) == ranges


def test_task_looks_up_only_earliest_and_latest_again(cluster: Admin):
    ends = {"startingOffsets": '{"sales":{"0":-2,"1":1}}', "endingOffsets": '{"sales":{"0":5,"1":-1}}'}
    first, second = (part.value.ranges[0] for part in batch(cluster, **ends).partitions())

    assert (first.from_earliest, first.to_latest) == (True, False)
    assert (second.from_earliest, second.to_latest) == (False, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endingOffsets": '{"sales":{"0":99,"1":-1}}'}, "sales-0 up to offset 99, but it ends at 10"),
        ({"startingOffsets": '{"sales":{"0":99,"1":0}}'}, "the start is at offset 99, past the end at 10"),
        ({"startingOffsets": '{"sales":{"0":1}}'}, "sales-1"),
    ],
)
def test_impossible_offsets_are_refused(cluster: Admin, options: dict[str, str], told: str):
    with pytest.raises(RefusedOption, match=told):
        planned(cluster, **options)


def test_missing_topic_raises_topic_missing(cluster: Admin):
    with pytest.raises(TopicMissing, match="nowhere"):
        planned(cluster, subscribe="sales,nowhere")


def test_pattern_without_matching_topic_gives_an_empty_batch(cluster: Admin):
    reader = OdradekBatchReader(
        batch_options({"kafka.bootstrap.servers": cluster.bootstrap, "subscribePattern": "^nothing$"})
    )

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []  # Spark's partition when there are none


def test_task_reads_only_its_range(cluster: Admin):
    reader = batch(cluster, minPartitions="4")
    shipped = pickle.loads(pickle.dumps(reader))

    rows = [row for part in reader.partitions() for block in shipped.read(part) for row in block.to_pylist()]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        *((0, offset) for offset in range(10)),
        *((1, offset) for offset in range(2)),
    ]
