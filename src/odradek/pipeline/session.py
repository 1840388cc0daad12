"""The Spark session of a pipeline: a new session or the user's, with fewer log messages, and in UTC."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.pipeline.errors import PipelineError
from odradek.spark.session import WORKER_MODULES, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for(
    name: str,
    master: str | None,
    conf: Mapping[str, str],
    given: SparkSession | None,
    worker_modules: Sequence[str] = (),
) -> SparkSession:
    """`worker_modules`: what the Python workers will need, imported once by the daemon that forks them."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # as below
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        # they print Spark's exceptions with the JVM stack, before the pipeline can explain them
        PySparkLogger.getLogger(logger).setLevel("CRITICAL")
    os.environ[WORKER_MODULES] = ",".join(worker_modules)
    session = given or local_session(name, master=master, conf=conf)
    check_time_zone(str(session.conf.get("spark.sql.session.timeZone")))
    return session


def check_time_zone(zone: str) -> None:
    if zone not in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
        raise PipelineError(
            f"the time zone of the Spark session is {zone}",
            why="times without a zone in records and SQL, and windows of a day, would depend on this time zone",
            instead='session.conf.set("spark.sql.session.timeZone", "UTC"), or leave it out of conf=',
        )
