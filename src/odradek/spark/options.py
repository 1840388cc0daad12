"""The options of a read: names, meanings, defaults and refusals of Spark's Kafka connector.

Spark passes option names in lower case. `kafka.*` options go to the client; all others are listed here. An unknown
option is refused by name, because a misspelt `failOnDataLos` that does nothing would be noticed too late.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeVar

from odradek.spark import option_values
from odradek.spark.errors import RefusedOption
from odradek.spark.offsets import Edge, Offsets, TopicPartition, parse_offsets, parse_partitions, parse_timestamps

log = logging.getLogger(__name__)
T = TypeVar("T")

KAFKA = "kafka."
SELECTIONS = ("subscribe", "subscribePattern", "assign")
POSITIONS = (
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
)
ADMISSION = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
STREAMING = ("alignTopics", "tickEvery", "tickFile")
OTHERS = (
    "minPartitions",
    "maxRecordsPerPartition",
    "packRecords",
    "failOnDataLoss",
    "includeHeaders",
    "includePosition",
    "positionRank",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "partition.metadata.cache.ttl.ms",
)
KNOWN = {name.lower(): name for name in SELECTIONS + POSITIONS + ADMISSION + STREAMING + OTHERS}

REFUSED_KAFKA = {
    "auto.offset.reset": "a query keeps its offsets itself and resumes from its checkpoint, so that no record is "
    "missed when topics or partitions are added; use the option startingOffsets to say where a new query begins",
    "key.deserializer": "keys are always bytes; decode them with DataFrame operations",
    "value.deserializer": "values are always bytes; decode them with DataFrame operations",
    "enable.auto.commit": "the source commits what a query has finished, never what a consumer has merely seen",
    "enable.auto.offset.store": "the source decides which offsets are stored",
    "enable.partition.eof": "the source needs it to find the end of a range",
    "interceptor.classes": "interceptors can change records before the query reads them",
    "plugin.library.paths": "plugins can change records before the query reads them",
}


@dataclass(frozen=True, slots=True)
class Topics:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    regex: str


@dataclass(frozen=True, slots=True)
class Assigned:
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Exactly:
    """An offset per partition. -1 is the latest and -2 the earliest offset."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of each partition with this timestamp or a later one."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    timestamps_ms: Offsets


Selection = Topics | Pattern | Assigned
Position = Edge | Exactly | AtTimestamp | AtTimestamps


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    selection: Selection
    start: Position
    end: Position = Edge.LATEST
    # startingOffsetsByTimestampStrategy: if a partition has no such record, begin at its end (True) or fail (False)
    latest_if_no_match: bool = False
    rows_max: int | None = None
    rows_min: int | None = None
    trigger_delay_s_max: float = 900.0
    # Topics of other sources whose micro-batches end at the same timestamps.
    align_topics: tuple[str, ...] = ()
    tick_every_ms: int | None = None
    tick_file: str | None = None
    tasks_min: int | None = None
    task_records_max: int | None = None
    pack_records_max: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_position: bool = False
    position_rank: int = 0
    group_id_prefix: str = "spark-kafka-source"
    fetch_attempts: int = 3
    fetch_interval_s: float = 1.0
    poll_timeout_s: float = 120.0
    metadata_ttl_s: float = 0.0
    # Java or librdkafka names, without the prefix `kafka.`
    kafka: Mapping[str, str] = field(default_factory=dict)

    @property
    def group_id(self) -> str | None:
        return self.kafka.get("group.id")

    @property
    def read_committed(self) -> bool:
        return self.kafka.get("isolation.level", "read_committed").lower() == "read_committed"

    @property
    def starts_at_latest(self) -> bool:
        """Whether the starting position may move between two lookups, so that the first result must be kept."""
        match self.start:
            case Edge():
                return self.start == Edge.LATEST
            case Exactly(offsets):
                return Edge.LATEST in offsets.values()
            case _:
                return self.latest_if_no_match


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    _check_names(given)
    options = _Given(given)
    for ending in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if ending in options:
            raise RefusedOption(f"{ending}: a streaming query has no end; use spark.read for a batch, or leave it out")
    start = options.position("starting", default=Edge.LATEST)
    _check_alignment(options, start)
    return _parsed(options, start, Edge.LATEST)


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    _check_names(given)
    options = _Given(given)
    start = options.position("starting", default=Edge.EARLIEST)
    end = options.position("ending", default=Edge.LATEST)
    if start == Edge.LATEST or (isinstance(start, Exactly) and Edge.LATEST in start.offsets.values()):
        raise RefusedOption(
            "startingOffsets: a batch cannot start at the latest offset (-1), there is nothing after it"
        )
    if end == Edge.EARLIEST or (isinstance(end, Exactly) and Edge.EARLIEST in end.offsets.values()):
        raise RefusedOption("endingOffsets: a batch cannot end at the earliest offset (-2), there is nothing before it")
    _check_order(start, end)
    for name in STREAMING:
        if name in options:
            raise RefusedOption(f"{name}: this option is for streaming queries; leave it out of a batch")
    for name in ADMISSION:
        if name in options:
            log.warning("option %s is for streaming queries; a batch ignores it", name)
    return _parsed(options, start, end)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """For a read that may become a batch or a stream: refused when the options fit neither."""
    if any(name in _Given(given) for name in STREAMING):
        return stream_options(given)
    try:
        return batch_options(given)
    except RefusedOption as not_as_batch:
        try:
            return stream_options(given)
        except RefusedOption:
            raise not_as_batch from None


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name.lower().startswith(KAFKA) or name.lower() in KNOWN:
            continue
        if name.lower() == "topic":
            raise RefusedOption("topic: this option says where to write; to read a topic, use the option subscribe")
        near = get_close_matches(name.lower(), KNOWN, n=1)
        hint = f"did you mean {KNOWN[near[0]]}?" if near else f"known options: kafka.*, {', '.join(KNOWN.values())}"
        raise RefusedOption(f"{name}: no such option of the source odradek; {hint}")


class _Given:
    """Options as the user wrote them, looked up by their documented names."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def read(self, name: str, parse: Callable[[str], T], *, default: T) -> T:
        if name not in self:
            return default
        text = self._values[name.lower()].strip()
        try:
            return parse(text)
        except RefusedOption:
            raise
        except ValueError as problem:
            raise RefusedOption(f"{name}: {problem}") from problem

    def text(self, name: str) -> str:
        return self._values[name.lower()].strip()

    def kafka(self) -> dict[str, str]:
        return {name[len(KAFKA) :]: value for name, value in self._values.items() if name.startswith(KAFKA)}

    def position(self, side: str, *, default: Edge) -> Position:
        """The most precise of three options wins, as in Spark: one timestamp, timestamps, offsets."""
        if f"{side}Timestamp" in self:
            return AtTimestamp(self.read(f"{side}Timestamp", int, default=0))
        if (by_timestamp := f"{side}OffsetsByTimestamp") in self:
            return AtTimestamps(parse_timestamps(by_timestamp, self.text(by_timestamp)))
        if (offsets := f"{side}Offsets") not in self:
            return default
        text = self.text(offsets)
        if text.upper() in Edge.__members__:
            return Edge[text.upper()]
        return Exactly(parse_offsets(offsets, text))


def _parsed(options: _Given, start: Position, end: Position) -> ReadOptions:
    rows_max = options.read("maxOffsetsPerTrigger", option_values.positive, default=None)
    rows_min = options.read("minOffsetsPerTrigger", option_values.positive, default=None)
    if rows_max is not None and rows_min is not None and rows_min > rows_max:
        raise RefusedOption(f"minOffsetsPerTrigger: {rows_min} is more than maxOffsetsPerTrigger ({rows_max})")
    _check_together(options)
    return ReadOptions(
        selection=_selection(options),
        start=start,
        end=end,
        latest_if_no_match=options.read("startingOffsetsByTimestampStrategy", option_values.strategy, default=False),
        rows_max=rows_max,
        rows_min=rows_min,
        trigger_delay_s_max=options.read("maxTriggerDelay", option_values.duration_s, default=900.0),
        align_topics=options.read("alignTopics", option_values.topics, default=()),
        tick_every_ms=options.read("tickEvery", option_values.positive, default=None),
        tick_file=options.text("tickFile") if "tickFile" in options else None,
        tasks_min=options.read("minPartitions", option_values.positive, default=None),
        task_records_max=options.read("maxRecordsPerPartition", option_values.positive, default=None),
        pack_records_max=options.read("packRecords", option_values.positive, default=None),
        fail_on_data_loss=options.read("failOnDataLoss", option_values.boolean, default=True),
        include_headers=options.read("includeHeaders", option_values.boolean, default=False),
        include_position=options.read("includePosition", option_values.boolean, default=False),
        position_rank=options.read("positionRank", option_values.rank, default=0),
        group_id_prefix=options.read("groupIdPrefix", str, default="spark-kafka-source"),
        fetch_attempts=options.read("fetchOffset.numRetries", option_values.count, default=3),
        fetch_interval_s=options.read("fetchOffset.retryIntervalMs", option_values.milliseconds, default=1.0),
        poll_timeout_s=options.read("kafkaConsumer.pollTimeoutMs", option_values.milliseconds, default=120.0),
        metadata_ttl_s=options.read("partition.metadata.cache.ttl.ms", option_values.cache_ttl, default=0.0),
        kafka=_kafka(options),
    )


def _check_together(options: _Given) -> None:
    if options.read("includePosition", option_values.boolean, default=False):
        for name in ("minPartitions", "maxRecordsPerPartition"):
            if name in options:
                raise RefusedOption(
                    f"{name}: not with includePosition: a position depends on the earlier records that the same task "
                    "reads, so no two tasks may share a partition; leave out one of the two options"
                )
    if "packRecords" in options and "minPartitions" in options:
        raise RefusedOption(
            "packRecords: not with minPartitions: one asks for fewer tasks, the other for more; leave out one of them"
        )


def _check_alignment(options: _Given, start: Position) -> None:
    if "alignTopics" not in options:
        return
    if not option_values.topics(options.text("alignTopics")):
        raise RefusedOption("alignTopics: it names no topic")
    if "maxOffsetsPerTrigger" not in options:
        raise RefusedOption("alignTopics: it needs maxOffsetsPerTrigger, the size of the micro-batches to align")
    if "minOffsetsPerTrigger" in options:
        raise RefusedOption("minOffsetsPerTrigger: not with alignTopics: the readers of the other topics do not wait")
    if not isinstance(start, Edge | AtTimestamp):
        raise RefusedOption(
            "alignTopics: a start per partition does not say where the other topics start; use startingOffsets "
            "earliest or latest, or startingTimestamp"
        )


def _selection(options: _Given) -> Selection:
    given = [name for name in SELECTIONS if name in options]
    if len(given) != 1:
        raise RefusedOption(
            f"set exactly one of {', '.join(SELECTIONS)}; "
            + (f"given: {', '.join(given)}" if given else "none is given")
        )
    text = options.text(given[0])
    if given[0] == "assign":
        return Assigned(parse_partitions("assign", text))
    if not text.strip(", "):
        raise RefusedOption(f"{given[0]}: it names no topic")
    if given[0] == "subscribe":
        return Topics(option_values.topics(text))
    try:
        re.compile(text)
    except re.error as problem:
        raise RefusedOption(f"subscribePattern: {text} is not a Python regular expression: {problem}") from problem
    return Pattern(text)


def _kafka(options: _Given) -> dict[str, str]:
    config = options.kafka()
    for name, why in REFUSED_KAFKA.items():
        if name in config:
            raise RefusedOption(f"kafka.{name}: not supported: {why}")
    if not config.get("bootstrap.servers", "").strip():
        raise RefusedOption('kafka.bootstrap.servers: missing; it says where the brokers are, such as "127.0.0.1:9092"')
    isolation = config.get("isolation.level", "read_committed").lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise RefusedOption(f"kafka.isolation.level: read_committed or read_uncommitted, not {isolation}")
    if "group.id" in config and "groupIdPrefix" in options:
        log.warning("option groupIdPrefix is ignored, since kafka.group.id is set")
    return config


def _check_order(start: Position, end: Position) -> None:
    match start, end:
        case (Exactly(before), Exactly(after)) | (AtTimestamps(before), AtTimestamps(after)):
            if before.keys() != after.keys():
                raise RefusedOption("the partitions of the starting and of the ending offsets are not the same")
            for place, first in before.items():
                if first > after[place] >= 0:
                    raise RefusedOption(f"{place}: the start {first} is past the end {after[place]}")
        case AtTimestamp(first), AtTimestamp(last) if first > last:
            raise RefusedOption(f"startingTimestamp {first} is past endingTimestamp {last}")
