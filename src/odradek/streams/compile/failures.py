"""What becomes of rows that failed: dead letters, nothing, or the end of the query with the record named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.streams.graph.nodes import MapRows, Process, Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# explanations.py finds the error by it in what Spark wraps around
FAILED_RECORD = "ODRADEK_FAILED_RECORD"
RECORD_PLACE = re.compile(r"record (\d+)/(\d+)/(\d+)")
"""Instead of topic, partition and offset: the rank of the source, partition, offset."""
STOPPED = re.compile(
    r"java\.(lang\.InterruptedException|io\.InterruptedIOException|nio\.channels\.ClosedByInterruptException)"
)


class MicroBatchFailed(Exception):
    """What Spark hears of a micro-batch that failed in Python."""


def good_rows(node: Topic | MapRows | Process, outcome: DataFrame) -> DataFrame:
    """The outcome without its failures. Without a dead-letter topic, the first failure ends the query."""
    if "_error" not in outcome.columns:
        return outcome
    return outcome.where(is_good(node)).drop("_error")


def is_good(node: Topic | MapRows | Process) -> Column:
    """Whether a row of an outcome did not fail. Without a dead-letter topic, evaluating a failed row raises."""
    good = F.col("_error").isNull()
    if node.dlq is None and node.on_error == "fail":
        return F.when(good, F.lit(True)).otherwise(F.raise_error(_message(node.name)).cast("boolean"))
    return good


def failed_rows(outcome: DataFrame) -> DataFrame:
    return outcome.where(F.col("_error").isNotNull())


def _message(step: str) -> Column:
    record, error = F.col("_record"), F.col("_error")
    where = F.coalesce(
        F.concat(record["topic"], F.lit("-"), record["partition"], F.lit(" at offset "), record["offset"]),
        F.concat(F.lit("row "), F.coalesce(record["value"].cast("string"), F.lit("without a value"))),
    )
    parts = (F.lit(f"{FAILED_RECORD} {step}: "), where, F.lit(": "), error["exception"], F.lit(": "), error["message"])
    return F.concat(*(F.coalesce(part.cast("string"), F.lit("?")) for part in parts))


def for_spark(problem: Exception) -> MicroBatchFailed:
    """Spark asks the text whether the query was only stopped, by a regular expression that recurses for each letter.

    So what was stopped says so in a few words, and what failed must not begin as the expression does.
    """
    text = str(problem)
    if stopped := STOPPED.search(text):
        text = f"py4j.protocol.Py4JJavaError: An error occurred while calling the sinks: {stopped[0]}"
    return MicroBatchFailed(text)
