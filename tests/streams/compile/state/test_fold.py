from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from odradek.streams.compile.state import fold
from streams.feeding import Feed, running, seconds

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


@dataclass
class Total:
    trips: int = 0
    metres: float = 0.0
    last: datetime | None = None
    places: list[str] = field(default_factory=list)


def add(total: Total, row):
    if row.place == "home":
        return None
    assert total.last is None or row._time > total.last, "in the order of time"
    assert list(row.asDict()) == ["driver", "place", "metres", "_time"]
    return Total(total.trips + 1, total.metres + row.metres, row._time, [*total.places, row.place])


def farther(best, row):
    return best if best.metres >= row.metres else row


def test_aggregates_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "rows", "driver int, place string, metres double")
    totals = fold(feed.stream, ["driver"], Total(), add, Total)
    best = fold(
        feed.stream,
        ["driver"],
        None,
        lambda value, row: row if value is None else farther(value, row),
        "place string, metres double",
    )

    def put(*rows):
        feed.put(*({"driver": d, "place": p, "metres": m, "at": at} for d, p, m, at in rows))

    def took(outcome):
        return sorted(
            (row.driver, row.trips, row.metres, row.places, seconds(row._time), row._deleted) for row in outcome.take()
        )

    with running(totals, tmp_path / "totals") as outcome:
        put((1, "b", 2, 3), (1, "a", 1, 1), (2, "c", 5, 2), (None, "d", 5, 2))
        assert took(outcome) == [(1, 2, 3.0, ["a", "b"], 3.0, False), (2, 1, 5.0, ["c"], 2.0, False)]

    with running(totals, tmp_path / "totals") as outcome:
        put((1, "e", 4, 7), (2, "home", 0, 8))
        assert took(outcome) == [(1, 3, 7.0, ["a", "b", "e"], 7.0, False), (2, None, None, None, 8.0, True)]

    with running(best, tmp_path / "best") as outcome:
        assert sorted((row.driver, row.place) for row in outcome.take()) == [(1, "e"), (2, "c")]
        put((1, "f", 3, 9), (2, "g", 6, 9))
        assert sorted((row.driver, row.place) for row in outcome.take()) == [(1, "e"), (2, "g")]
