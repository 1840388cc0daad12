"""Spark's progress report of each micro-batch, written to a file by the JVM's own logging.

No requests go to the driver, so that the measurement does not change the result.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "Streaming query made progress: "
LOGGING = """\
appender.progress.type = File
appender.progress.name = progress
appender.progress.fileName = {file}
appender.progress.layout.type = PatternLayout
appender.progress.layout.pattern = %m%n
"""
LOGGER = """\
logger.progress{n}.name = org.apache.spark.sql.execution.streaming.{name}
logger.progress{n}.level = info
logger.progress{n}.additivity = false
logger.progress{n}.appenderRef.progress.ref = progress
"""
# The logger has the name of the reporter or of the query's class, depending on the version of Spark.
LOGGERS = ("runtime.ProgressReporter", "runtime.ProgressContext", "runtime.MicroBatchExecution")
# The parts of a micro-batch in the order in which they happen.
PARTS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets", "commitBatch")

Progress = dict[str, Any]


def java_option(folder: Path, shipped: Path) -> str:
    """Adds the progress file to the logging configuration of Odradek; log4j2 merges the two."""
    own = folder / "progress-log4j2.properties"
    loggers = "".join(LOGGER.format(n=n, name=name) for n, name in enumerate(LOGGERS))
    own.write_text(LOGGING.format(file=progress_file(folder)) + loggers)
    return f"-Dlog4j2.configurationFile={shipped.as_uri()},{own.as_uri()}"


def progress_file(folder: Path) -> Path:
    return folder / "progress.log"


def read(folder: Path) -> list[Progress]:
    file = progress_file(folder)
    return list(_parsed(file.read_text(errors="replace"))) if file.exists() else []


def _parsed(text: str) -> Iterator[Progress]:
    decoder = json.JSONDecoder()
    position = text.find(MARK)
    while position >= 0:
        try:
            progress, _ = decoder.raw_decode(text, position + len(MARK))
            yield progress
        except ValueError:  # the JVM ended in the middle of a line
            pass
        position = text.find(MARK, position + 1)


def by_query(progress: list[Progress]) -> dict[str, list[Progress]]:
    """Batches with work, by the name of their query."""
    found: defaultdict[str, list[Progress]] = defaultdict(list)
    for one in progress:
        if "addBatch" in one.get("durationMs", {}):
            found[one["name"] or one["id"]].append(one)
    return dict(sorted(found.items()))


def summary(batches: list[Progress]) -> dict[str, float]:
    """Medians of a query's batches, in milliseconds and rows."""
    durations = [one["durationMs"] for one in batches]
    figures: dict[str, float] = {"batches": len(batches)}
    figures["rows"] = statistics.median(one["numInputRows"] for one in batches)
    for part in ("triggerExecution", *PARTS):
        figures[part] = statistics.median(one.get(part, 0) for one in durations)
    for name in ("allUpdatesTimeMs", "commitTimeMs"):
        figures[f"state {name}"] = statistics.median(
            sum(operator.get(name, 0) for operator in one.get("stateOperators", [])) for one in batches
        )
    return figures
