from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from odradek.streams.compile.state import stream_table_join
from streams.feeding import Feed, running, together

EVENTS = "driver int, speed double"
DRIVERS = "id long, name string, hired timestamp, age int, tags array<string>, home struct<city: string, zip: int>"


def test_each_event_sees_the_newest_row(spark: SparkSession, tmp_path: Path) -> None:
    events, drivers = Feed(spark, tmp_path / "events", EVENTS), Feed(spark, tmp_path / "drivers", DRIVERS)

    def joined():
        return stream_table_join(events.stream, drivers.changelog, {"driver": "id"}, "left").select(
            "driver", "speed", "name", "age"
        )

    with running(joined(), tmp_path / "checkpoint") as outcome:
        drivers.put({"id": 1, "name": "Ada", "age": 36, "at": 0}, {"id": 2, "name": "Bob", "at": 0})
        events.put({"driver": 1, "speed": 50, "at": 1}, {"driver": 3, "speed": 53, "at": 1}, {"speed": 54, "at": 1})
        assert sorted(outcome.take(), key=lambda r: r.speed) == [
            (1, 50.0, "Ada", 36),
            (3, 53.0, None, None),
            (None, 54.0, None, None),
        ]

        # within one micro-batch: in the order of times, whatever the order of arrival; the table first on ties
        together(
            events.hidden(
                {"driver": 1, "speed": 61, "at": 9},
                {"driver": 1, "speed": 62, "at": 10},
                {"driver": 1, "speed": 63, "at": 11},
            ),
            drivers.hidden(
                {"id": 1, "_deleted": True, "at": 10}, {"id": 1, "name": "Ada Lovelace", "age": 37, "at": 10}
            ),
        )
        assert sorted(outcome.take(), key=lambda r: r.speed) == [
            (1, 61.0, "Ada", 36),
            (1, 62.0, "Ada Lovelace", 37),
            (1, 63.0, "Ada Lovelace", 37),
        ]

        events.put({"driver": 1, "speed": 70, "at": 2})  # late: sees the newest
        assert outcome.take() == [(1, 70.0, "Ada Lovelace", 37)]

        # history meets a table that was loaded later: the first row counts, for what came before it too
        together(
            events.hidden({"driver": 4, "speed": 71, "at": 3}, {"driver": 5, "speed": 72, "at": 3}),
            drivers.hidden(
                {"id": 4, "name": "Cy", "at": 10},
                {"id": 4, "name": "Cyrus", "at": 11},
                {"id": 5, "_deleted": True, "at": 10},
                {"id": 5, "name": "Eve", "at": 11},
            ),
        )
        assert sorted(outcome.take(), key=lambda r: r.speed) == [(4, 71.0, "Cy", None), (5, 72.0, None, None)]

        drivers.put(
            {"id": 1, "name": "Augusta", "at": 12},
            {"id": 1, "_deleted": True, "at": 12},
            {"id": 2, "name": "Robert", "at": 12},
        )
        events.put({"driver": 1, "speed": 80, "at": 13})
        assert outcome.take() == [(1, 80.0, None, None)]

    with running(joined(), tmp_path / "checkpoint") as outcome:  # state survives a restart
        events.put({"driver": 1, "speed": 90, "at": 14}, {"driver": 2, "speed": 91, "at": 14})
        assert sorted(outcome.take(), key=lambda r: r.speed) == [(1, 90.0, None, None), (2, 91.0, "Robert", None)]


def test_values_of_all_types_pass_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    kinds = (
        "b byte, s short, i int, l long, f float, d double, t boolean, c decimal(20,5), day date, time timestamp, "
        "plain timestamp_ntz, bytes binary, list array<int>, map map<string,double>, "
        "deep struct<x:int,y:array<struct<z:timestamp>>>"
    )
    full = {
        "b": 1, "s": -2, "i": 3, "l": 9007199254740993, "f": 0.5, "d": 0.1, "t": True, "c": "123456789012345.12345",
        "day": "0950-03-01", "time": "1500-01-01T00:00:00.123456Z", "plain": "9999-12-31T23:59:59.999999",
        "bytes": "AQID", "list": [1, None, 3], "map": {"k": 0.25, "n": None},
        "deep": {"x": None, "y": [{"z": "2026-01-01T00:00:00.000001Z"}]},
    }  # fmt: skip
    events = Feed(spark, tmp_path / "events", f"key int, {kinds}")
    table = Feed(spark, tmp_path / "table", f"id byte, {', '.join('t_' + kind for kind in _columns(kinds))}")
    joined = stream_table_join(events.stream, table.changelog, {"key": "id"}, "left")
    assert [f.dataType for f in joined.schema][1:16] == [f.dataType for f in joined.schema][17:]
    table.put({"id": 1, "at": 0, **{f"t_{name}": value for name, value in full.items()}}, {"id": 2, "at": 0})
    events.put({"key": 1, "at": 1, **full}, {"key": 2, "at": 1, "l": 7}, {"key": 3, "at": 1})
    as_read = {row.key: row for row in spark.read.schema(f"key int, {kinds}").json(str(tmp_path / "events")).collect()}
    with running(joined, tmp_path / "checkpoint") as outcome:
        for row in outcome.take():
            assert list(row[1:16]) == list(as_read[row.key])[1:]
            assert list(row[17:]) == (list(as_read[1])[1:] if row.key == 1 else [None] * 15)


def _columns(kinds: str) -> list[str]:
    """Split at commas outside of brackets."""
    return re.split(r", (?![^<]*>)", kinds)


def test_the_watermark_is_kept_so_that_a_window_can_follow(spark: SparkSession, tmp_path: Path) -> None:
    events, drivers = Feed(spark, tmp_path / "events", EVENTS), Feed(spark, tmp_path / "drivers", "id int, name string")
    timed = events.stream.filter("speed > 0").withWatermark("_time", "2 seconds")
    joined = stream_table_join(timed, drivers.changelog, {"driver": "id"})
    windowed = joined.groupBy(F.window("_time", "10 seconds"), "name").agg(F.max("speed").alias("fastest"))
    with running(windowed.select("name", "fastest"), tmp_path / "checkpoint") as outcome:
        drivers.put({"id": 1, "name": "Ada", "at": -1000})
        events.put(
            {"driver": 1, "speed": 10, "at": 1},
            {"driver": 1, "speed": 12, "at": 9},
            {"driver": 2, "speed": 99, "at": 9},
        )
        assert outcome.take() == []
        drivers.put({"id": 1, "name": "Augusta", "at": -999})  # older than the watermark, and still the newest row
        events.put({"driver": 1, "speed": 30, "at": 25}, {"driver": 1, "speed": 14, "at": 8})
        assert sorted(outcome.take()) == [("Ada", 12.0), ("Augusta", 14.0)]
        events.put({"driver": 1, "speed": 99, "at": 5}, {"driver": 1, "speed": 31, "at": 45})  # the first is too late
        assert outcome.take() == [("Augusta", 30.0)]
