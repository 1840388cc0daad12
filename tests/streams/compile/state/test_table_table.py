from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from odradek.pipeline.errors import PipelineError
from odradek.streams.compile.state import stream_table_join, table_table_join
from streams.feeding import Feed, running, seconds


def test_changes_of_both_sides_change_the_joined_row(spark: SparkSession, tmp_path: Path) -> None:
    drivers = Feed(spark, tmp_path / "drivers", "id int, name string, rank int")
    trucks = Feed(spark, tmp_path / "trucks", "driver int, plate string, tons decimal(5,2)")
    wanted = ("id", "name", "rank", "plate", "tons", "_deleted")

    def put(feed, at, *rows):
        feed.put(*({**row, "at": at} for row in rows))

    frames = {
        how: table_table_join(drivers.changelog, trucks.changelog, {"id": "driver"}, how)
        for how in ("inner", "left", "outer")
    }
    put(drivers, 1, {"id": 1, "name": "Ada", "rank": 4}, {"id": 2, "name": "Bob"})
    put(trucks, 2, {"driver": 2, "plate": "B", "tons": 7.25}, {"driver": 3, "plate": "C"})

    def took(outcome, *columns):
        return sorted(tuple(str(row[name]) for name in columns) for row in outcome.take())

    with running(frames["outer"], tmp_path / "outer") as outcome:
        assert took(outcome, *wanted) == [
            ("1", "Ada", "4", "None", "None", "False"),
            ("2", "Bob", "None", "B", "7.25", "False"),
            ("3", "None", "None", "C", "None", "False"),
        ]
        put(drivers, 3, {"id": 2, "_deleted": True}, {"id": 1, "name": "Ada", "rank": 4})  # 1: nothing new
        assert took(outcome, *wanted) == [("2", "None", "None", "B", "7.25", "False")]
        put(trucks, 4, {"driver": 2, "_deleted": True}, {"driver": 1, "plate": "A"}, {"driver": 1, "plate": "A2"})
        assert took(outcome, *wanted) == [
            ("1", "Ada", "4", "A2", "None", "False"),
            ("2", "None", "None", "None", "None", "True"),
        ]

    with running(frames["inner"], tmp_path / "inner") as outcome:
        assert took(outcome, "id", "plate", "_deleted") == [("1", "A2", "False")]
        put(trucks, 5, {"driver": 1, "_deleted": True}, {"driver": 9, "_deleted": True})
        put(drivers, 5, {"id": 3, "name": "Cleo"})
        changes = {row.id: row for row in outcome.take()}
        assert {key: (row.name, row.plate, row._deleted) for key, row in changes.items()} == {
            1: (None, None, True),
            3: ("Cleo", "C", False),
        }
        assert seconds(changes[3]._time) == 5


def test_two_columns_of_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    drivers = Feed(spark, tmp_path / "drivers", "id int, name string").changelog
    for join in (stream_table_join, table_table_join):
        with pytest.raises(PipelineError, match="both sides of the join have name"):
            join(drivers, drivers, {"id": "id"})
