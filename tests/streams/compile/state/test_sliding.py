from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from odradek.streams.compile.state import sliding
from streams.feeding import Feed, running, seconds


def test_windows_are_given_once_when_they_are_final(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "rows", "driver string, speed int")

    def windowed():
        return sliding(
            feed.stream,
            ["driver"],
            timedelta(seconds=5),
            timedelta(seconds=2),
            {"n": F.count("*"), "fastest": F.max("speed"), "all": F.sort_array(F.collect_list("speed"))},
        )

    def put(*rows):
        feed.put(*({"driver": driver, "speed": speed, "at": at} for driver, speed, at in rows))

    def took(outcome):
        return sorted(
            (r.driver, seconds(r.window_start), seconds(r.window_end), r.n, r.fastest, r.all) for r in outcome.take()
        )

    with running(windowed(), tmp_path / "checkpoint") as outcome:
        put(("a", 3, 12.4), ("a", 1, 8), ("b", 7, 8))  # the watermark goes to 10.4
        assert took(outcome) == [("a", 3.0, 8.0, 1, 1, [1]), ("b", 3.0, 8.0, 1, 7, [7])]

    with running(windowed(), tmp_path / "checkpoint") as outcome:
        # 9.2 is later than the watermark: the window that ends with it is over, those after it are open
        put(("a", 2, 9.2), ("b", 9, 2))
        assert took(outcome) == []
        put(("c", 0, 100))
        assert took(outcome) == [
            ("a", 7.4, 12.4, 3, 3, [1, 2, 3]),
            ("a", 8.001, 13.001, 2, 3, [2, 3]),
            ("a", 9.201, 14.201, 1, 3, [3]),
        ]
        put(("d", 0, 200))
        assert took(outcome) == [("c", 95.0, 100.0, 1, 0, [0])]
        operators = outcome.query.lastProgress["stateOperators"]
        assert [operator["numRowsTotal"] for operator in operators] == [0, 2], "all but what d needs is forgotten"
