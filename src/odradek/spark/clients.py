"""How the source configures librdkafka: for questions of the driver, for progress, for reading on executors."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.java_names import librdkafka_config
from odradek.spark.options import ReadOptions

Config = dict[str, str | int | bool]

# What a client needs to reach a cluster; an admin client warns about everything else.
CONNECTION = (
    "api.version.",
    "bootstrap.",
    "broker.",
    "client.",
    "connections.",
    "debug",
    "enable.ssl.",
    "enable.sasl.",
    "https.",
    "log",
    "metadata.",
    "reconnect.",
    "retry.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "topic.metadata.",
)

READING: Mapping[str, str | int | bool] = {
    # librdkafka reads committed records by default, Java's consumer and so Spark's connector all records.
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    # Past its target the prefetch queue pauses for this long; at librdkafka's 1000 ms a reader starves.
    "fetch.queue.backoff.ms": 5,
    # A range ends at an offset that exists: a fetch waits only when it has reached the end of the log, and the answer
    # that says so should not be late.
    "fetch.wait.max.ms": 5,
}
OURS: Mapping[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A task reads what the driver planned: an offset that does not exist is the driver's to judge, never skipped.
    "auto.offset.reset": "error",
}

PREFETCH_SMALL = 10_000
PREFETCH_LARGE = 1_000_000


# What librdkafka would print about a broker that is away comes in the error of the call that needed it.
QUIET: Mapping[str, str | int | bool] = {"log_level": 0}


def connection(options: ReadOptions) -> Config:
    given = librdkafka_config(options.kafka)
    return {**QUIET, **{name: value for name, value in given.items() if name.startswith(CONNECTION)}}


def prefetch(records: int) -> int:
    """How many records to queue ahead. What is prefetched past the end of a range is fetched in vain."""
    return PREFETCH_SMALL if records <= PREFETCH_SMALL else PREFETCH_LARGE


def reading(options: ReadOptions, prefetched: int) -> Config:
    # librdkafka asks for a group even where partitions are assigned by hand. Nothing is ever committed to this one.
    group = {"group.id": f"{options.group_id_prefix}-executor"}
    queue = {"queued.min.messages": prefetched}
    return {**QUIET, **READING, **queue, **group, **librdkafka_config(options.kafka), **OURS}
