from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession

from odradek.streams.state import ListState, MapState, State, Timers, process
from streams.state.feeding import Feed, running, seconds

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
