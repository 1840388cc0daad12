"""The metrics of a running application: what the status thread sees of its queries, and its lag.

The lag needs requests to the cluster. A thread of its own measures it after the metrics were read, so that an
application whose metrics are not read sends none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from odradek.client.admin import Admin, UnknownTopic
from odradek.client.first_records import FirstRecords
from odradek.client.records import ClientError
from odradek.monitor.catalogue import streams as m
from odradek.monitor.instruments import Counter, Distribution
from odradek.monitor.registry import Reading, Registry
from odradek.pipeline.behind import Behind, behind
from odradek.pipeline.keeping_up import MicroBatch
from odradek.pipeline.layout import Layout
from odradek.pipeline.query_record import QueryRecord

logger = logging.getLogger(__name__)

MEASURE_EVERY_S = 5.0
REQUEST_TIMEOUT_S = 5.0
# An older measurement says nothing about now.
LAG_VALID_S = 60.0


class QueryMeters:
    """Counts the micro-batches of one query. Updated by the status thread."""

    def __init__(self, registry: Registry, application: str, query: str) -> None:
        labels = application, query
        self.last: int | None = None  # the last micro-batch that was counted
        self.dropped = 0
        self._records: Counter = registry.counter(m.PROCESSED, f"{application}.{query}")
        self._batches: Counter = registry.counter(m.BATCHES, *labels)
        self._took: Distribution = registry.distribution(m.BATCH_MS, *labels)
        self._planned: Distribution = registry.distribution(m.PLANNING_MS, *labels)
        self._executed: Distribution = registry.distribution(m.EXECUTION_MS, *labels)

    def see(self, batches: Sequence[MicroBatch]) -> None:
        for batch in batches:
            self.dropped += batch.dropped
            self._records.count += batch.rows
            self._batches.count += 1
            self._took.observe(round(batch.took_s * 1000))
            self._planned.observe(round(batch.planning_s * 1000))
            self._executed.observe(round(batch.execution_s * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    at_s: float
    behind: Mapping[str, Behind]  # by query
    dead_letters: Mapping[str, int]  # by topic: its end offsets, which also count the markers of transactions


class Metering:
    """Readings for `registry` of the application's queries, of its lag, its dead letters and its restarts."""

    def __init__(self, registry: Registry, layout: Layout, dead_letter_topics: Sequence[str]) -> None:
        self._app = layout.app
        self._registry = registry
        self._meters: dict[str, QueryMeters] = {}
        self._records: tuple[QueryRecord, ...] = ()
        self._restarts = 0
        self._lag = LagMeter(layout, dead_letter_topics)
        registry.source(self._readings)

    def last_batch(self, query: str) -> int | None:
        return self._of(query).last

    def count(self, query: str, batches: Sequence[MicroBatch], last: int | None) -> None:
        """Runs on the status thread. `last`: the number of the micro-batch to go on from."""
        meters = self._of(query)
        meters.last = last
        meters.see(batches)

    def _of(self, query: str) -> QueryMeters:
        if query not in self._meters:
            self._meters[query] = QueryMeters(self._registry, self._app, query)
        return self._meters[query]

    def see(self, records: tuple[QueryRecord, ...], restarts: int) -> None:
        """Runs on the status thread, about once a second."""
        self._records = records
        self._restarts = restarts

    @contextmanager
    def measuring_lag(self, bootstrap: str, config: Mapping[str, str]) -> Iterator[None]:
        self._lag.start(Admin(bootstrap, config, timeout_s=REQUEST_TIMEOUT_S))
        try:
            yield
        finally:
            self._lag.stop()

    def _readings(self) -> Iterator[Reading]:
        app, records = self._app, self._records
        queries = [record.name for record in records]
        lag = self._lag.latest(queries)
        yield Reading(m.APPLICATION_STATE, (app,), _state(records))
        yield Reading(m.ALIVE, (app,), sum(record.state in ("waiting", "working") for record in records))
        yield Reading(m.FAILED, (app,), sum(record.state == "failed" for record in records))
        yield Reading(m.RESTARTS, (app,), self._restarts)
        for record in records:
            yield from self._of_query(record)
            if lag is not None and record.name in lag.behind:
                yield from _of_lag(app, record.name, lag.behind[record.name])
        if lag is not None:
            for topic, count in lag.dead_letters.items():
                yield Reading(m.DEAD_LETTERS, (app, topic), count)

    def _of_query(self, record: QueryRecord) -> Iterator[Reading]:
        labels = self._app, record.name
        yield Reading(m.STATE, labels, record.state)
        if record.batch is None:
            return
        yield Reading(m.KEEPS_UP, labels, int(record.warning is None))
        late = self._of(record.name).dropped if record.late_rows is None else record.late_rows
        yield Reading(m.DROPPED, (f"{self._app}.{record.name}",), late)
        for metric, value in (
            (m.INPUT_RATE, record.input_rows_per_s),
            (m.PROCESSING_RATE, record.processed_rows_per_s),
            (m.STATE_ROWS, record.state_rows),
            (m.STATE_BYTES, record.state_bytes),
        ):
            if value is not None:
                yield Reading(metric, labels, value)


def _of_lag(app: str, query: str, lag: Behind) -> Iterator[Reading]:
    yield Reading(m.SECONDS_BEHIND, (app, query), lag.seconds_max)
    for topic, records in lag.records.items():
        yield Reading(m.RECORDS_BEHIND, (app, query, topic), records)


def _state(records: Sequence[QueryRecord]) -> str:
    """In the words of Kafka Streams."""
    states = {record.state for record in records}
    if "failed" in states:
        return "ERROR"
    if not states or "starting" in states:
        return "CREATED"
    return "NOT_RUNNING" if states == {"stopped"} else "RUNNING"


@dataclass(slots=True)
class LagMeter:
    """Measures how far the queries are behind, in its own thread, when `latest` was called."""

    layout: Layout
    dead_letter_topics: Sequence[str]
    _queries: Sequence[str] = ()
    _lag: Lag | None = None
    _wanted: threading.Event = field(default_factory=threading.Event)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def latest(self, queries: Sequence[str]) -> Lag | None:
        """None before the first measurement, and while the cluster does not answer."""
        self._queries = queries
        self._wanted.set()
        lag = self._lag
        return lag if lag is not None and time.monotonic() - lag.at_s < LAG_VALID_S else None

    def start(self, cluster: Admin) -> None:
        threading.Thread(target=self._run, args=[cluster], name="odradek-lag", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()

    def _run(self, cluster: Admin) -> None:
        with closing(FirstRecords(cluster.bootstrap, cluster.config, timeout_s=REQUEST_TIMEOUT_S)) as first:
            while True:
                self._wanted.wait()
                if self._stopping.is_set():
                    return
                self._wanted.clear()
                try:
                    self._lag = self._measured(cluster, first)
                except (ClientError, UnknownTopic) as unknown:
                    logger.debug("the lag of %s is not known: %s", self.layout.app, unknown)
                self._stopping.wait(MEASURE_EVERY_S)

    def _measured(self, cluster: Admin, first: FirstRecords) -> Lag:
        ends: dict[str, dict[int, int]] = {}
        found = {query: behind(cluster, first, self.layout.group(query), ends) for query in self._queries}
        letters = {topic: sum(cluster.end_offsets(topic).values()) for topic in self.dead_letter_topics}
        known = {query: lag for query, lag in found.items() if lag is not None}
        return Lag(at_s=time.monotonic(), behind=known, dead_letters=letters)
