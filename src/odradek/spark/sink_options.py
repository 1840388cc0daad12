"""What a write is told: the options and columns of Spark's Kafka sink, checked on the driver before any task runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from odradek.client.java_names import RefusedConfig, librdkafka_config
from odradek.spark.errors import RefusedOption

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

KAFKA = "kafka."
# Checkpoint and name of a query are Spark's business; they arrive here with all other options of a streaming write.
# includeHeaders is in Spark's documentation of writes; there as here it is the columns that decide.
KNOWN = {name.lower(): name for name in ("topic", "checkpointLocation", "queryName", "includeHeaders")}

DEFAULTS = {
    # Java's places: a key goes to the partition to which a Java producer sends it.
    "partitioner": "murmur2_random",
    "acks": "all",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "120000",
    # How long a topic that nobody knows is waited for: it may have been created a moment ago on another broker.
    "topic.metadata.propagation.max.ms": "10000",
    # What waits in the memory of one task; a task that is ahead of the brokers waits for room.
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "131072",
    # A producer outlives its task, and would go on about a broker that has gone. What its connections met comes with
    # the error of the task.
    "log_level": "0",
}
OWN = {
    "delivery.report.only.error": "every record is accounted for by the sink itself",
    "transactional.id": "the sink is at-least-once; exactly-once needs transactions that follow Spark's batches",
    "plugin.library.paths": "a plug-in can change records on their way",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    topic: str | None
    config: dict[str, str]
    """For the producer, in librdkafka's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which of the optional columns the rows have."""

    key: bool
    topic: bool
    partition: bool
    headers: bool


class RefusedColumns(ValueError):
    """Rows that cannot be records, and which columns records have."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}. A record is written from the columns value (string or binary), and where they are there from key "
            "(string or binary), topic (string), partition (int), headers (array<struct<key:string,value:binary>>)"
        )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options)
    kafka = {name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)}
    if not kafka.get("bootstrap.servers", "").strip():
        raise RefusedOption('kafka.bootstrap.servers: missing; it says where the brokers are, such as "127.0.0.1:9092"')
    for name, why in OWN.items():
        if name in kafka:
            raise RefusedOption(f"kafka.{name}: not supported: {why}")
    try:
        config = librdkafka_config(kafka)
    except RefusedConfig as refused:
        instead = f"; instead: {refused.instead}" if refused.instead else ""
        raise RefusedOption(f"kafka.{refused.name}: {refused.why}{instead}") from None
    return SinkOptions(topic=options.get("topic"), config=_defaults(config) | config)


def _check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name.startswith(KAFKA) or name in KNOWN:
            continue
        if name == "path":
            raise RefusedOption("path: a topic is named by the option topic or the column topic")
        near = get_close_matches(name, KNOWN, n=1)
        hint = f"did you mean {KNOWN[near[0]]}?" if near else "known are topic and kafka.*"
        raise RefusedOption(f"{name}: no such option of the sink odradek; {hint}")


def _defaults(config: Mapping[str, str]) -> dict[str, str]:
    """As in Java, whoever asks for fewer acknowledgements, no retries or more in flight gives up idempotence."""
    defaults = dict(DEFAULTS)
    gives_up = (
        config.get("acks", "all").lower() not in ("all", "-1")
        or config.get("retries") == "0"
        or int(config.get("max.in.flight.requests.per.connection", "5")) > 5
    )
    if gives_up:
        del defaults["enable.idempotence"]
    return defaults


def check_columns(schema: StructType, topic: str | None) -> Columns:
    """The columns that rows of this schema have, or RefusedColumns. Others than those of a record are left out."""
    from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType

    types: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    header = StructType().add("key", StringType()).add("value", BinaryType())
    text_or_bytes: tuple[DataType, ...] = (StringType(), BinaryType())
    wanted = {
        "value": text_or_bytes,
        "key": text_or_bytes,
        "topic": (StringType(),),
        "partition": (IntegerType(),),
        "headers": (ArrayType(header),),
    }
    if "value" not in types:
        raise RefusedColumns(f"there is no column value; the columns are {', '.join(types)}")
    if topic is None and "topic" not in types:
        raise RefusedColumns("there is neither an option topic nor a column topic that says where to write")
    for name, accepted in wanted.items():
        unread = name == "topic" and topic is not None
        # in simple words a type says nothing about what may be null
        if (
            name in types
            and not unread
            and types[name].simpleString() not in [kind.simpleString() for kind in accepted]
        ):
            expected = " or ".join(each.simpleString() for each in accepted)
            raise RefusedColumns(f"the column {name} is {types[name].simpleString()}, and must be {expected}")
    return Columns(key="key" in types, topic=topic is None, partition="partition" in types, headers="headers" in types)
