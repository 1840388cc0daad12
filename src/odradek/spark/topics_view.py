"""The driver's view of the topics of a query: which partitions exist, where they begin and end.

Brokers restart and leaders move while a query runs. An exception from this module ends the query, so each request is
retried (`fetchOffset.numRetries` times). If no broker is reachable when the query starts, it fails within seconds: see
`reachability`.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from odradek.client.listed_offsets import offset_in
from odradek.spark import clients
from odradek.spark.errors import ClusterUnavailable, RefusedOption, TopicMissing
from odradek.spark.offsets import Edge, Offsets, TopicPartition, names
from odradek.spark.options import Assigned, AtTimestamp, AtTimestamps, Exactly, Pattern, Position, ReadOptions, Topics
from odradek.spark.reachability import require_reachable
from odradek.spark.sink_options import MARKER_TOPIC

log = logging.getLogger(__name__)
T = TypeVar("T")

# For one attempt: librdkafka itself waits this long for an unreachable broker.
REQUEST_TIMEOUT_S = 30.0
INTERNAL_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", MARKER_TOPIC}
)
# Errors that a retry cannot fix.
FINAL = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 (librdkafka's own codes have this form)
        KafkaError._INVALID_ARG,  # noqa: SLF001
    }
)


class TopicsView:
    def __init__(self, options: ReadOptions) -> None:
        require_reachable(options.kafka["bootstrap.servers"])
        self._options = options
        self._last_error: KafkaError | None = None
        self._admin = AdminClient({**clients.connection(options), "error_cb": self._on_error})
        self._isolation = IsolationLevel.READ_COMMITTED if options.read_committed else IsolationLevel.READ_UNCOMMITTED
        self._cached: set[TopicPartition] = set()
        self._cached_until_s = 0.0

    def start(self) -> Offsets:
        """Where a new query begins."""
        return self._asking(lambda: self._resolved(self._options.start, starting=True))

    def end(self) -> Offsets:
        """Where a batch ends."""
        return self._asking(lambda: self._resolved(self._options.end, starting=False))

    def latest(self, known: Mapping[TopicPartition, int]) -> tuple[Offsets, Offsets]:
        """The ends of all existing partitions: first of the partitions that are read, then of the other `alignTopics`.

        `known` are the offsets that the query has reached. If a partition is missing or ends before its known offset,
        the broker's metadata may be out of date. The result is accepted after `fetchOffset.numRetries` attempts.
        """
        for attempt in range(self._options.fetch_attempts):
            if attempt:
                time.sleep(self._options.fetch_interval_s)
                self._cached_until_s = 0.0
            found = self._asking(lambda: self._edges(self._known(), Edge.LATEST))
            if all(found.get(place, -1) >= offset for place, offset in known.items()):
                break
        found |= self._behind_open_transactions(known, found)
        own = {place: offset for place, offset in found.items() if self._is_read(place)}
        return own, {place: offset for place, offset in found.items() if place not in own}

    def _behind_open_transactions(self, known: Mapping[TopicPartition, int], found: Offsets) -> Offsets:
        """Partitions that the query has read up to records of transactions that are open, with another
        `isolation.level`. It waits there.
        """
        further = {place: offset for place, offset in known.items() if offset > found.get(place, offset)}
        if not further or not self._options.read_committed:
            return {}
        specs = dict.fromkeys(further, _spec(Edge.LATEST))
        ends = self._asking(lambda: self._listed(specs, IsolationLevel.READ_UNCOMMITTED))
        return {place: offset for place, offset in further.items() if offset <= ends[place]}

    def others(self, edge: Edge) -> Offsets:
        """An edge of the partitions of `alignTopics` that are not read here."""
        return self._asking(lambda: self._edges(self._known() - self._existing(), edge))

    def at_time(self, places: Iterable[TopicPartition], time_ms: int) -> Offsets:
        """The first offsets with this timestamp or a later one; -1 where there is none."""
        wanted = list(places)
        return self._asking(lambda: self._listed(dict.fromkeys(wanted, OffsetSpec.for_timestamp(time_ms))))

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        wanted = list(places)
        return self._asking(lambda: self._edges(wanted, Edge.EARLIEST))

    def _resolved(self, position: Position, *, starting: bool) -> Offsets:
        existing = self._required()
        match position:
            case Edge():
                return self._edges(existing, position)
            case Exactly(offsets):
                self._check_same(offsets.keys(), existing, "offsets")
                return self._with_edges(offsets)
            case AtTimestamp(timestamp_ms):
                return self._at_times(dict.fromkeys(existing, timestamp_ms), starting=starting)
            case AtTimestamps(timestamps_ms):
                self._check_same(timestamps_ms.keys(), existing, "timestamps")
                return self._at_times(timestamps_ms, starting=starting)

    def _at_times(self, timestamps_ms: Offsets, *, starting: bool) -> Offsets:
        found = self._listed({place: OffsetSpec.for_timestamp(time_ms) for place, time_ms in timestamps_ms.items()})
        unmatched = [place for place, offset in found.items() if offset < 0]
        if unmatched and starting and not self._options.latest_if_no_match:
            raise RefusedOption(
                f"{names(unmatched)}: no record has the starting timestamp or a later one; use an earlier timestamp, "
                "or the option startingOffsetsByTimestampStrategy=latest to begin at the end of such partitions"
            )
        return self._with_edges(found)

    def _with_edges(self, offsets: Offsets) -> Offsets:
        edges = {place: Edge(offset) for place, offset in offsets.items() if offset < 0}
        return offsets | self._listed({place: _spec(edge) for place, edge in edges.items()})

    def _edges(self, places: Iterable[TopicPartition], edge: Edge) -> Offsets:
        return self._listed(dict.fromkeys(places, _spec(edge)))

    def _listed(self, wanted: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel | None = None) -> Offsets:
        if not wanted:
            return {}
        answers = self._admin.list_offsets(
            {KafkaPartition(*place): spec for place, spec in wanted.items()},
            isolation_level=self._isolation if isolation is None else isolation,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return {TopicPartition(at.topic, at.partition): offset_in(answer.result()) for at, answer in answers.items()}

    def _required(self) -> set[TopicPartition]:
        """All selected partitions that exist. TopicMissing if a topic or partition that the options name does not."""
        existing = self._existing()
        topics = {place.topic for place in existing}
        missing: list[str] = []
        match self._options.selection:
            case Topics(wanted):
                missing = [name for name in wanted if name not in topics]
            case Assigned(partitions):
                missing = [str(place) for place in sorted(partitions - existing)]
        if missing:
            raise TopicMissing(
                f"{', '.join(missing)}: no such topic or partition at {self._options.kafka['bootstrap.servers']}; "
                "create it before the query, or use subscribePattern, which also reads topics that are created later"
            )
        return existing

    def _existing(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return {place for place in self._known() if self._is_read(place)}

    def _known(self) -> set[TopicPartition]:
        if time.monotonic() >= self._cached_until_s:
            self._cached = self._selected()
            self._cached_until_s = time.monotonic() + self._options.metadata_ttl_s
        return self._cached

    def _selected(self) -> set[TopicPartition]:
        aligned = self._options.align_topics
        match self._options.selection:
            case Pattern(regex):
                topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
                matching = [name for name in topics if _matches(regex, name) or name in aligned]
                return {TopicPartition(name, number) for name in matching for number in topics[name].partitions}
            case Topics(wanted):
                return self._described({*wanted, *aligned})
            case Assigned(partitions):
                found = self._described({*(place.topic for place in partitions), *aligned})
                return {place for place in found if place in partitions or place.topic in aligned}

    def _is_read(self, place: TopicPartition) -> bool:
        match self._options.selection:
            case Pattern(regex):
                return _matches(regex, place.topic)
            case Topics(wanted):
                return place.topic in wanted
            case Assigned(partitions):
                return place in partitions

    def _described(self, topics: Iterable[str]) -> set[TopicPartition]:
        # Not list_topics(topic): if brokers auto-create topics, that would create a deleted topic again.
        answers = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=REQUEST_TIMEOUT_S)
        found = set()
        for name, answer in answers.items():
            try:
                found |= {TopicPartition(name, partition.id) for partition in answer.result().partitions}
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found

    def _check_same(self, given: Iterable[TopicPartition], existing: set[TopicPartition], what: str) -> None:
        if differing := set(given) ^ existing:
            raise RefusedOption(
                f"{what} must be given for every partition that is read and for no other (-1 is the latest, -2 the "
                f"earliest offset); this is not so for {names(differing)}"
            )

    def _asking(self, question: Callable[[], T]) -> T:
        self._last_error = None  # errors of earlier requests may be over
        for attempt in range(1, self._options.fetch_attempts + 1):
            try:
                return question()
            except (KafkaException, TopicMissing) as problem:
                self._cached_until_s = 0.0
                self._admin.poll(0)  # calls `_on_error` for connection errors
                if attempt == self._options.fetch_attempts or self._is_final(problem):
                    raise self._told(problem) from problem
                told = self._told(problem)
                log.warning("attempt %d of %d failed, will retry: %s", attempt, self._options.fetch_attempts, told)
                time.sleep(self._options.fetch_interval_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _is_final(self, problem: Exception) -> bool:
        if isinstance(problem, TopicMissing):
            return False
        codes = {problem.args[0].code(), self._last_error.code() if self._last_error else None}
        return bool(codes & FINAL)

    def _told(self, problem: Exception) -> Exception:
        if isinstance(problem, TopicMissing):
            return problem
        seen = f" ({self._last_error.str()})" if self._last_error else ""
        where = self._options.kafka["bootstrap.servers"]
        return ClusterUnavailable(f"the cluster at {where} did not return offsets: {problem.args[0].str()}{seen}")

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error


def _matches(regex: str, topic: str) -> bool:
    return topic not in INTERNAL_TOPICS and re.search(regex, topic) is not None


def _spec(edge: Edge) -> OffsetSpec:
    return OffsetSpec.latest() if edge == Edge.LATEST else OffsetSpec.earliest()
