"""The column `position`: bytes that sort all records of an application, the same from both ways of reading."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin import Admin
from odradek.spark import raw_batches
from odradek.spark.arrow_schema import arrow_schema
from odradek.spark.options import batch_options, stream_options
from odradek.spark.planning import OffsetRange
from odradek.spark.positions import LAST, Positions
from odradek.spark.range_reading import positions_of, read_range
from odradek.spark.schema import spark_schema
from support.topics import Records

BY_LIBRDKAFKA = {"kafka.check.crcs": "true"}


def position(newest_ms: int, rank: int, partition: int, offset: int) -> bytes:
    sizes = (newest_ms + (1 << 63), 8), (rank, 2), (partition, 4), (offset, 8)
    return b"".join(number.to_bytes(size, "big") for number, size in sizes)


def rows(cluster: Admin, wanted: OffsetRange, **options: str) -> list[dict]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": wanted.topic, "includePosition": "true"}
    batches = list(read_range(batch_options(given | options), wanted))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema("includeHeaders" in options, include_position=True))
    return [row for batch in batches for row in batch.to_pylist()]


times = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.lists(times, max_size=5), max_size=5), st.integers(0, 65535), st.integers(0, (1 << 31) - 1))
def test_newest_timestamp_is_kept_from_batch_to_batch(batches, rank, partition):
    positions = Positions(rank, partition)
    found, offset = [], 7
    for stamps in batches:
        offsets = np.arange(offset, offset + len(stamps))
        column = positions.column(np.array(stamps, np.int64), offsets)
        column.validate(full=True)
        found += column.to_pylist()
        offset += len(stamps)

    newest = accumulate((stamp for stamps in batches for stamp in stamps), max)
    assert found == [position(time, rank, partition, 7 + number) for number, time in enumerate(newest)]
    assert found == sorted(found)
    assert all(each < LAST for each in found)


def test_both_ways_of_reading_give_the_same_positions(cluster: Admin, records: Records):
    cluster.create_topic("placed", 2)
    stamps = [1000, 3000, 2000, 3000, 4000, 1]
    for stamp in stamps:
        records.put("placed", ["v"], partition=1, timestamp_ms=stamp)

    # The newest timestamp is counted from the beginning of the range, not of the partition.
    wanted = OffsetRange(topic="placed", partition=1, start=2, end=6)
    fast = rows(cluster, wanted, positionRank="513")
    assert fast == rows(cluster, wanted, positionRank="513", **BY_LIBRDKAFKA)
    assert [row["position"] for row in fast] == [
        position(2000, 513, 1, 2),
        position(3000, 513, 1, 3),
        position(4000, 513, 1, 4),
        position(4000, 513, 1, 5),
    ]


def test_positions_continue_when_librdkafka_takes_over(
    cluster: Admin, records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(raw_batches, "DECODE_BYTES", 1)
    cluster.create_topic("handed", 1)
    records.put("handed", ["old"], timestamp_ms=9000)
    records.put("handed", ["v"], timestamp_ms=5000)
    many = [(f"n{number}", b"v") for number in range(200)]  # more than raw fetching supports
    records.put("handed", ["v"], headers=many, timestamp_ms=20_000)
    records.put("handed", ["v"], timestamp_ms=7000)

    with caplog.at_level("INFO", "odradek.spark.range_reading"):
        found = rows(cluster, OffsetRange(topic="handed", partition=0, start=0, end=4), includeHeaders="true")

    assert "continues with librdkafka at offset 2" in caplog.text
    newest = [9000, 9000, 20_000, 20_000]
    assert [row["position"] for row in found] == [position(time, 0, 0, at) for at, time in enumerate(newest)]


def test_arrow_schema_with_position_matches_the_spark_schema():
    from pyspark.sql.pandas.types import to_arrow_schema

    for include_headers in (False, True):
        ours = arrow_schema(include_headers, include_position=True)
        assert ours.equals(to_arrow_schema(spark_schema(include_headers, include_position=True), timezone="UTC"))
        assert not ours.field("position").nullable


def test_topics_of_one_source_have_different_positions():
    """Two topics with equal partition, offset and time have a fixed order, whatever other topics the source reads."""

    def position(topic: str, **selection: str) -> bytes:
        options = stream_options({"kafka.bootstrap.servers": "127.0.0.1:1", "includePosition": "true", **selection})
        positions = positions_of(options, OffsetRange(topic=topic, partition=3, start=0, end=1))
        return positions.column(np.array([7]), np.array([0]))[0].as_py()

    assert position("a", subscribe="a") == position("b", subscribe="b")
    assert position("a", subscribe="a,b") != position("b", subscribe="a,b")
    assert position("a", subscribe="a,b") == position("a", subscribe="a,b,c") == position("a", subscribePattern=".*")
