from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from odradek.pipeline.errors import PipelineError
from odradek.streams.compile.python_rows import with_record
from odradek.streams.compile.state import ListState, MapState, State, Timers, process
from streams.feeding import NOON, Feed, running, seconds, until

DAY = timedelta(days=1)
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


@dataclass
class Longest:
    length: float
    since: datetime
    places: list[str]


def trip(
    key: tuple[int, str],
    rows: Iterator[Row],
    count: State[int],
    longest: State[Longest],
    stops: ListState[str],
    visits: MapState[str, int],
    timers: Timers,
) -> Iterator[Any]:
    for row in rows:
        count.value = (count.value or 0) + 1
        visits[row.place] = visits.get(row.place, 0) + 1
        stops.append(row.place)
        if longest.value is None:
            longest.value = Longest(0.0, row._time, [])
        longest.value.length = max(longest.value.length, row.gap["metres"])
        longest.value.places.append(row.place)
        timers.clear()
        timers.after("10s")
        yield {"driver": key[0], "what": f"{key[1]}:{row.place}", "count": count.value}


def rest(
    key: tuple[int, str],
    at: datetime,
    count: State[int],
    longest: State[Longest],
    stops: ListState[str],
    visits: MapState[str, int],
) -> Iterator[Any]:
    kept = longest.value
    told = f"{'>'.join(stops)} {sorted(visits.items())} {kept.length} {kept.since:%H:%M:%S} {'>'.join(kept.places)}"
    yield key[0], told, count.value
    for state in (count, longest, stops, visits):
        state.clear()


def test_state_timers_and_restart(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "rows", "driver int, truck string, place string, gap struct<metres: double>")

    def processed():
        rows = feed.stream.withWatermark("_time", "0 seconds")
        return process(rows, ["driver", "truck"], trip, "driver int, what string, count long", on_timer=rest).select(
            "driver", "what", "count", "_time"
        )

    def put(*rows):
        feed.put(*({"driver": d, "truck": "t", "place": p, "gap": {"metres": m}, "at": at} for d, p, m, at in rows))

    def took(outcome):
        return sorted((r.driver, r.what, r["count"], seconds(r._time)) for r in outcome.take())

    with running(processed(), tmp_path / "checkpoint") as outcome:
        put((1, "Bonn", 3, 2), (1, "Aachen", 1, 1), (2, "Cottbus", 1, 1))  # taken in the order of their times
        assert took(outcome) == [(1, "t:Aachen", 1, 1.0), (1, "t:Bonn", 2, 2.0), (2, "t:Cottbus", 1, 1.0)]

    with running(processed(), tmp_path / "checkpoint") as outcome:  # state and timers survive
        put((1, "Bonn", 2, 8))
        assert took(outcome) == [(1, "t:Bonn", 3, 8.0)]
        put((3, "Dresden", 1, 18))  # the timer of 2, set at 1, fires; so does that of 1, set again at 8
        assert took(outcome) == [
            (1, "Aachen>Bonn>Bonn [('Aachen', 1), ('Bonn', 2)] 3.0 12:00:01 Aachen>Bonn>Bonn", 3, 18.0),
            (2, "Cottbus [('Cottbus', 1)] 1.0 12:00:01 Cottbus", 1, 11.0),
            (3, "t:Dresden", 1, 18.0),
        ]
        put((1, "Essen", 1, 19))
        assert took(outcome) == [(1, "t:Essen", 1, 19.0)]  # cleared by its timer


class Spree:
    """A class with both functions, in the place of two arguments; the wall's clock."""

    def on_rows(self, key: int, rows: Iterator[Row], count: State[int], timers: Timers) -> Iterator[Any]:
        count.value = (count.value or 0) + sum(1 for _ in rows)
        timers.at(NOON)  # long past: fires when the clock moves
        yield key, "counted", count.value

    def on_timer(self, key: int, at: datetime, count: State[int]) -> Iterator[Any]:
        yield key, "over", count.value
        count.clear()
        if key == 2:
            raise ValueError("two")


def risky(key: int, rows: Iterator[Row], sums: State[float], all_of_them: ListState[float], by: MapState[str, int]):
    for row in rows:
        sums.value = (sums.value or 0) + 1 / row.speed
        all_of_them.append(row.speed)
        by["n"] = by.get("n", 0) + 1
        if row.speed < 0:
            raise ValueError(f"speed {row.speed}")
        yield {"driver": key, "what": f"{sums.value} {list(all_of_them)} {dict(by)}"}


def test_ttl_and_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "rows", "driver int, speed double")
    rows = feed.stream.withWatermark("_time", "100 seconds").withColumn("_record", F.struct("speed"))
    outcomes = process(rows, ["driver"], risky, "driver int, what string", ttl="10s", dead_letters=True)

    def put(*rows):
        feed.put(*({"driver": driver, "speed": speed, "at": at} for driver, speed, at in rows))

    def took(outcome):
        return sorted(
            (seconds(row._time), row.what or (row._record.speed, row._error.exception, row._error.message))
            for row in outcome.take()
        )

    with running(outcomes, tmp_path / "checkpoint") as outcome:
        put((1, 2, 1), (1, 0, 2), (1, -1, 3), (1, 4, 4))
        assert took(outcome) == [
            (1.0, "0.5 [2.0] {'n': 1}"),
            (2.0, (0.0, "ZeroDivisionError", "float division by zero")),
            (3.0, (-1.0, "ValueError", "speed -1.0")),
            (4.0, "0.75 [2.0, 4.0] {'n': 2}"),
        ]
        put((1, 2, 25), (1, 2, 14), (1, 2, 3.5))  # ten seconds after 4 is not too long, eleven after 14 is
        assert took(outcome) == [
            (3.5, "1.25 [2.0, 4.0, 2.0] {'n': 3}"),
            (14.0, "1.75 [2.0, 4.0, 2.0, 2.0] {'n': 4}"),
            (25.0, "0.5 [2.0] {'n': 1}"),
        ]
        put((2, 1, 200))
        put((2, 1, 136), (2, 1, 201))  # by the watermark, 100 and then 101, the key of driver 1 is forgotten
        outcome.take()
        (operator,) = outcome.query.lastProgress["stateOperators"]
        assert operator["numRowsTotal"] == 4, "of driver 2: a value, a list, an entry of a map, a time"


def test_timers_of_the_wall_and_one_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "rows", "driver int, _key binary")
    rows = with_record(feed.stream)
    frame = process(rows, ["driver"], Spree, "driver int, what string, n int", timers="processing", dead_letters=True)
    with running(frame, tmp_path / "checkpoint") as outcome:
        feed.put(*({"driver": driver, "at": 1} for driver in (1, 1, 2)))
        until(lambda: len(outcome.rows) == 5, "the timers have fired")
        good = [row[:3] for row in outcome.rows if row._error is None]
        assert sorted(good) == [(1, "counted", 1), (1, "counted", 2), (1, "over", 2), (2, "counted", 1)]
        (failed,) = (row for row in outcome.rows if row._error)
        assert failed._error.message == "two"
        told = {header.key: bytes(header.value) for header in failed._record.headers}
        assert told["__streams.errors.key"] == b'{"driver": 2}'
        assert abs(datetime.fromisoformat(told["__streams.errors.timer"].decode()) - datetime.now(UTC)) < DAY


def bad_annotation(key, rows, count): ...
def two_types(key, at, count: State[str]): ...
def no_timer(key, rows, count: State[int], timers: Timers): ...
def plain(key, rows, count: State[int]): ...


@pytest.mark.parametrize(
    ("function", "more", "told"),
    [
        (bad_annotation, {}, "parameter count of bad_annotation does not say what it is"),
        (plain, {"on_timer": two_types, "timers": "processing"}, "state count is of one type for rows and of another"),
        (no_timer, {}, "nothing happens when one fires"),
        (plain, {"ttl": "5s"}, "need a watermark"),
        (no_timer, {"ttl": "5s", "on_timer": plain}, "cannot have a ttl"),
    ],
)
def test_what_cannot_work_is_refused(spark: SparkSession, tmp_path: Path, function, more, told) -> None:
    with pytest.raises(PipelineError, match=told):
        process(Feed(spark, tmp_path / "rows", "driver int").stream, ["driver"], function, "driver int", **more)
