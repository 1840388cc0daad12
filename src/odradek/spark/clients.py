"""librdkafka configuration of the source: for requests of the driver, for progress commits, for reads on executors."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.java_names import librdkafka_config
from odradek.spark.options import ReadOptions

Config = dict[str, str | int | bool]

# Settings that a client needs to connect to a cluster. An admin client warns about all others.
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
    # As librdkafka. Java's consumer, and so Spark's connector, reads uncommitted records unless told otherwise.
    "isolation.level": "read_committed",
    "check.crcs": True,
    # Fetching pauses for this long when the prefetch queue is full. With librdkafka's 1000 ms a reader starves.
    "fetch.queue.backoff.ms": 5,
    # A range ends at an offset that exists, so a fetch waits only at the end of the log. That response must be fast.
    "fetch.wait.max.ms": 5,
}
OURS: Mapping[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A task reads the range that the driver planned. An offset that does not exist is an error, it is never skipped.
    "auto.offset.reset": "error",
}

PREFETCH_SMALL = 10_000
PREFETCH_LARGE = 1_000_000


# librdkafka need not log unreachable brokers: the error of the call that needed the broker names them.
QUIET: Mapping[str, str | int | bool] = {"log_level": 0}


def connection(options: ReadOptions) -> Config:
    return {**QUIET, **connection_of(librdkafka_config(options.kafka))}


def connection_of(config: Mapping[str, str]) -> dict[str, str]:
    """The settings of a config, in librdkafka's names, that a client needs to connect."""
    return {name: value for name, value in config.items() if name.startswith(CONNECTION)}


def prefetch(records: int) -> int:
    """How many records to queue ahead. Records prefetched past the end of a range are thrown away."""
    return PREFETCH_SMALL if records <= PREFETCH_SMALL else PREFETCH_LARGE


def reading(options: ReadOptions, prefetched: int) -> Config:
    # librdkafka requires a group even for assigned partitions. The source never commits to this group.
    group = {"group.id": f"{options.group_id_prefix}-executor"}
    queue = {"queued.min.messages": prefetched}
    return {**QUIET, **READING, **queue, **group, **librdkafka_config(options.kafka), **OURS}
