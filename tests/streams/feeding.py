"""Streams whose every micro-batch is written by the test: a directory of files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from support.waiting import wait_until

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Feed:
    """`schema`: the user's columns. Rows are dictionaries; `at` says their `_time` in seconds after noon."""

    def __init__(self, spark: SparkSession, place: Path, schema: str) -> None:
        self._spark, self._place, self._schema = spark, place, schema
        self._place.mkdir(exist_ok=True)
        self._written = len(list(place.iterdir()))

    def put(self, *rows: Mapping[str, Any]) -> None:
        together(self.hidden(*rows))

    def hidden(self, *rows: Mapping[str, Any]) -> Path:
        """A file that the stream does not see before it is renamed."""
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        self._written += 1
        place = self._place / f".{self._written:04}.json"
        place.write_text(lines)
        return place

    @property
    def stream(self) -> DataFrame:
        raw = self._spark.readStream.schema(f"{self._schema}, at double").json(str(self._place))
        micros = F.lit(int(NOON.timestamp() * 1_000_000)) + (F.col("at") * 1_000_000).cast("long")
        return raw.withColumn("_time", F.timestamp_micros(micros)).drop("at")

    @property
    def changelog(self) -> DataFrame:
        """The same with `_deleted`, false where a row says nothing of it."""
        raw = Feed(self._spark, self._place, f"{self._schema}, _deleted boolean").stream
        return raw.withColumn("_deleted", F.coalesce("_deleted", F.lit(False)))


def together(*hidden: Path) -> None:
    """Rows of several feeds for one micro-batch."""
    for place in hidden:
        os.rename(place, place.with_name(place.name[1:]))


class Outcome:
    """What a query gave, micro-batch by micro-batch."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.query: Any = None

    def add(self, batch: DataFrame, _number: int) -> None:
        self.rows += batch.collect()

    def take(self) -> list[Row]:
        """All that came since the last time, when the query has nothing left to do."""
        self.query.processAllAvailable()
        rows, self.rows = self.rows, []
        return rows


@contextmanager
def running(frame: DataFrame, checkpoint: Path, mode: str = "append") -> Iterator[Outcome]:
    outcome = Outcome()
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    outcome.query = writer.foreachBatch(outcome.add).start()
    try:
        yield outcome
    finally:
        outcome.query.stop()


def seconds(moment: datetime) -> float:
    """After noon. Spark's rows have times in the zone of the machine, without saying so."""
    return round((moment.astimezone(UTC) - NOON).total_seconds(), 3)


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    wait_until(condition, what, within_s=timeout_s)
