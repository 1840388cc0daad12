"""Ticks from the wall clock in steps, or from a file. The reader is called as Spark calls it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek.client.admin import Admin
from odradek.spark.arrow_schema import arrow_schema
from odradek.spark.errors import RefusedOption
from odradek.spark.options import stream_options
from odradek.spark.positions import LAST
from odradek.spark.stream_reader import OdradekStreamReader
from support.topics import Records

ALL = ReadAllAvailable()
HOUR_MS = 3_600_000


def reader(cluster: Admin, topic: str, **options: str) -> OdradekStreamReader:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return OdradekStreamReader(stream_options(given | {"includePosition": "true"} | options))


def rows(source: OdradekStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for part in source.partitions(start, end) for batch in source.read(part) for row in batch.to_pylist()]


def test_clock_moves_in_steps_and_each_step_gives_a_row(cluster: Admin, records: Records):
    cluster.create_topic("clocked", 2)
    records.put("clocked", ["v"])
    source = reader(cluster, "clocked", tickEvery=str(HOUR_MS), includeHeaders="true")
    start = source.initialOffset()

    before_ms = time.time() * 1000
    end = source.latestOffset(start, ALL)
    assert end == {"@clock": end["@clock"], "clocked": {"0": 1, "1": 0}}
    assert end["@clock"] % HOUR_MS == 0
    assert before_ms - HOUR_MS < end["@clock"] <= time.time() * 1000
    assert source.latestOffset(end, ALL)["clocked"] == end["clocked"]

    (part,) = source.partitions(start, end)
    record, tick = (batch for batch in source.read(part))
    assert tick.schema.equals(record.schema)
    assert tick.schema.equals(arrow_schema(True, include_position=True))
    tick.validate(full=True)
    assert tick.to_pylist() == [
        {
            "key": None,
            "value": None,
            "topic": "clocked",
            "partition": -1,
            "offset": -1,
            "timestamp": datetime.fromtimestamp(end["@clock"] / 1000, UTC),
            "timestampType": -1,
            "headers": None,
            "position": LAST,
        }
    ]
    assert record["position"].to_pylist()[0] < LAST


def test_tick_without_records_starts_a_batch(cluster: Admin):
    cluster.create_topic("ticking", 1)
    source = reader(cluster, "ticking", tickEvery="1")
    offset = source.latestOffset(source.initialOffset(), ALL)
    while (following := source.latestOffset(offset, ALL)) == offset:
        pass

    assert following["@clock"] > offset["@clock"]
    (row,) = rows(source, offset, following)
    assert (row["partition"], row["timestamp"].timestamp() * 1000) == (-1, following["@clock"])
    assert rows(source, following, following) == []
    # Without includePosition a tick gives a micro-batch without rows.
    plain = reader(cluster, "ticking", tickEvery="1", includePosition="false")
    assert plain.partitions(offset, following) == []


def test_time_does_not_decrease_when_the_clock_is_set_back(cluster: Admin):
    cluster.create_topic("set-back", 1)
    source = reader(cluster, "set-back", tickEvery="1000")
    ahead = {"@clock": int(time.time() * 1000) + HOUR_MS, "set-back": {"0": 0}}

    assert source.latestOffset(ahead, ALL) == ahead


def test_tick_file_sets_the_time(cluster: Admin, tmp_path: Path):
    cluster.create_topic("told", 1)
    file = tmp_path / "now"
    source = reader(cluster, "told", tickFile=str(file), tickEvery=str(HOUR_MS))
    clocked = source.latestOffset(source.initialOffset(), ALL)
    assert clocked.keys() == {"@clock", "told"}

    file.write_text("2024-05-01T12:00:00Z\n")
    noon = source.latestOffset(clocked, ALL)
    assert noon == {"@clock": clocked["@clock"], "@time": 1_714_564_800_000, "told": {"0": 0}}
    assert source.latestOffset(noon, ALL) == noon
    assert [row["timestamp"] for row in rows(source, clocked, noon)] == [datetime(2024, 5, 1, 12, tzinfo=UTC)]

    file.write_text("1714564800001")
    later = source.latestOffset(noon, ALL)
    assert later == noon | {"@time": 1_714_564_800_001}
    file.write_text("2024-05-01T12:00:00.002")
    assert source.latestOffset(later, ALL)["@time"] == 1_714_564_800_002

    file.write_text("")
    assert source.latestOffset(later, ALL) == later
    file.write_text("noon")
    with pytest.raises(RefusedOption, match=r"tickFile: .*now holds 'noon'; expected ms"):
        source.latestOffset(later, ALL)


def test_available_now_sends_one_tick_with_its_last_records(cluster: Admin, records: Records):
    cluster.create_topic("at-once", 1)
    records.put("at-once", ["v"] * 5)
    source = reader(cluster, "at-once", tickEvery="1")
    source.prepareForTriggerAvailableNow()

    start, limit = source.initialOffset(), ReadMaxRows(3)
    first = source.latestOffset(start, limit)
    second = source.latestOffset(first, limit)
    assert first == {"at-once": {"0": 3}}
    assert (second["at-once"], "@clock" in second) == ({"0": 5}, True)
    assert source.latestOffset(second, limit) == second
    assert [row["partition"] for row in rows(source, first, second)] == [0, 0, -1]


def test_small_batch_has_one_task_that_includes_the_tick(cluster: Admin, records: Records):
    cluster.create_topic("one-task", 2)
    for partition in range(2):
        records.put("one-task", ["v"], partition=partition)
    source = reader(cluster, "one-task", tickEvery=str(HOUR_MS), packRecords="10")
    start = source.initialOffset()

    end = source.latestOffset(start, ALL)
    (part,) = source.partitions(start, end)
    assert str(part.value) == f"one-task-0 [0, 1), one-task-1 [0, 1), one-task at {end['@clock']}"
    assert [row["partition"] for row in rows(source, start, end)] == [0, 1, -1]
