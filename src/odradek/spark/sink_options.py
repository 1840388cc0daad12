"""Options and columns of a write, as in Spark's Kafka sink. The driver checks them before any task runs."""

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
# Spark passes all options of a streaming write, also checkpointLocation and queryName, which the sink ignores.
# Spark's documentation lists includeHeaders for writes, but only the columns decide, in Spark's sink and in this one.
NAMES = (
    *("topic", "checkpointLocation", "queryName", "includeHeaders"),
    *("delivery.guarantee", "delivery.sink", "delivery.markers"),
)
KNOWN = {name.lower(): name for name in NAMES}
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
MARKER_TOPIC = "odradek-sink-markers"

DEFAULTS = {
    # Java's partitioner: a key goes to the same partition as from a Java producer.
    "partitioner": "murmur2_random",
    "acks": "all",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "120000",
    # How long to wait for an unknown topic: it may have just been created through another broker.
    "topic.metadata.propagation.max.ms": "10000",
    # The send queue of one task. A task that is faster than the brokers waits for room.
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "131072",
    # A producer outlives its task and would keep logging that a stopped broker is unreachable. The error of the task
    # includes the errors of the connections.
    "log_level": "0",
}
OWN = {
    "delivery.report.only.error": "the sink itself tracks the delivery of every record",
    "transactional.id": "the sink has one for each of its tasks (delivery.guarantee=exactly-once)",
    "plugin.library.paths": "a plug-in can change records before they are sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """Exactly once: `sink` identifies the sink among those of the cluster, None: its query does."""

    sink: str | None
    markers: str
    is_required: bool  # False: at least once where the cluster has no transactions
    to_begin_again: str  # what to do after the checkpoint was deleted
    plan: str | None = None  # identifies the offsets of the micro-batch; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    topic: str | None
    config: dict[str, str]
    """For the producer, in librdkafka's names."""
    guarantee: Guarantee | None
    """None: at least once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which of the optional columns the rows have."""

    key: bool
    topic: bool
    partition: bool
    headers: bool


class RefusedColumns(ValueError):
    """Rows that cannot be written as records. The message lists the columns of a record."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}. A record is written from the column value (string or binary) and, if present, from the columns "
            "key (string or binary), topic (string), partition (int), "
            "headers (array<struct<key:string,value:binary>>)"
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
    config = _defaults(config) | config
    return SinkOptions(topic=options.get("topic"), config=config, guarantee=_guarantee(options, config))


def _guarantee(options: Mapping[str, str], config: Mapping[str, str]) -> Guarantee | None:
    wanted = _choice(options, "delivery.guarantee", EXACTLY_ONCE, AT_LEAST_ONCE)
    if wanted == AT_LEAST_ONCE:
        return None
    if config.get("enable.idempotence") != "true":
        if wanted is None:
            return None
        raise RefusedOption(
            f"delivery.guarantee: {EXACTLY_ONCE} needs an idempotent producer: leave out kafka.acks, kafka.retries=0 "
            "and more than five kafka.max.in.flight.requests.per.connection"
        )
    sink = options.get("delivery.sink")
    markers = options.get("delivery.markers", MARKER_TOPIC)
    return Guarantee(
        sink=sink,
        markers=markers,
        is_required=wanted is not None,
        to_begin_again="use `odradek streams reset`"
        if markers != MARKER_TOPIC
        else "set the option delivery.sink to a name that no other sink has",
    )


def _choice(options: Mapping[str, str], name: str, *allowed: str) -> str | None:
    chosen = options.get(name)
    if chosen is not None and chosen not in allowed:
        raise RefusedOption(f"{name}: {chosen!r} is neither {' nor '.join(allowed)}")
    return chosen


def _check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name.startswith(KAFKA) or name in KNOWN:
            continue
        if name == "path":
            raise RefusedOption("path: a topic is named by the option topic or the column topic")
        near = get_close_matches(name, KNOWN, n=1)
        hint = f"did you mean {KNOWN[near[0]]}?" if near else "known options: topic, kafka.*"
        raise RefusedOption(f"{name}: no such option of the sink odradek; {hint}")


def _defaults(config: Mapping[str, str]) -> dict[str, str]:
    """The default settings. As in Java, idempotence is off when the user sets acks below all, retries=0, or more than
    five requests in flight.
    """
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
    """The record columns of this schema, or RefusedColumns. Other columns are ignored."""
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
        # simpleString() leaves out nullability
        if (
            name in types
            and not unread
            and types[name].simpleString() not in [kind.simpleString() for kind in accepted]
        ):
            expected = " or ".join(each.simpleString() for each in accepted)
            raise RefusedColumns(f"the column {name} is {types[name].simpleString()}, and must be {expected}")
    return Columns(key="key" in types, topic=topic is None, partition="partition" in types, headers="headers" in types)
