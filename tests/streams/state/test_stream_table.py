from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from odradek.streams.state import stream_table_join
from streams.state.feeding import Feed, running

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
        events.put(
            {"driver": 1, "speed": 61, "at": 9},
            {"driver": 1, "speed": 62, "at": 10},
            {"driver": 1, "speed": 63, "at": 11},
        )
        drivers.put({"id": 1, "name": "Ada Lovelace", "age": 37, "at": 10})
        assert sorted(outcome.take(), key=lambda r: r.speed) == [
            (1, 61.0, "Ada", 36),
            (1, 62.0, "Ada Lovelace", 37),
            (1, 63.0, "Ada Lovelace", 37),
        ]

        events.put({"driver": 1, "speed": 70, "at": 2})  # late: sees the newest
        assert outcome.take() == [(1, 70.0, "Ada Lovelace", 37)]

        drivers.put({"id": 1, "_deleted": True, "at": 12}, {"id": 2, "name": "Robert", "at": 12})
        events.put({"driver": 1, "speed": 80, "at": 13})
        assert outcome.take() == [(1, 80.0, None, None)]

    with running(joined(), tmp_path / "checkpoint") as outcome:  # state survives a restart
        events.put({"driver": 1, "speed": 90, "at": 14}, {"driver": 2, "speed": 91, "at": 14})
        assert sorted(outcome.take(), key=lambda r: r.speed) == [(1, 90.0, None, None), (2, 91.0, "Robert", None)]
