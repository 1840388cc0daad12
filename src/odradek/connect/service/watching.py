"""Looks for news of connectors whose tasks do not run, and for changed partitions, in few threads on the driver.

A look at a source asks the connector. A look at sinks asks the cluster for the end offsets of all their topics at once.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from odradek.client.admin import Admin
from odradek.connect.common_options import SinkOptions
from odradek.connect.interface import Source, TopicPartition
from odradek.connect.records import Offset, Partition
from odradek.connect.service.assignment import distributed, of_source
from odradek.connect.validation import Connector

_log = logging.getLogger("odradek.connect")

THREADS = 4
SINKS_EVERY_S = 0.25
TOPICS_EVERY_S = 2.0
# While its tasks run, a source is asked for new partitions only this often.
BUSY_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Listed:
    connector: str
    version: int
    tasks: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class NotListed:
    connector: str
    version: int
    trace: str


@dataclass(frozen=True, slots=True)
class News:
    connector: str
    task: int


@dataclass(frozen=True, slots=True)
class Regrouped:
    """The connector has other partitions than its tasks were made for."""

    connector: str
    version: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What a source says about the other system."""

    connector: str
    levels: Mapping[str, float]


Sighting = Listed | NotListed | News | Regrouped | Measured


@dataclass(slots=True)
class _Watched:
    connector: Connector
    version: int
    source: Source[Any] | None = None
    tasks: tuple[tuple[Any, ...], ...] = ()
    is_listed: bool = False
    is_busy: bool = False  # a thread is looking, or listing
    is_dropped: bool = False
    next_s: float = 0.0
    measured_s: float = 0.0
    # Parked tasks: for a sink, the end offsets that were read.
    parked: dict[int, Mapping[TopicPartition, int]] = field(default_factory=dict)


class Watching:
    """Methods are called by one thread. `saw` is called on threads of this object."""

    def __init__(self, admin: Admin, saw: Callable[[Sighting], None]) -> None:
        self._admin = admin
        self._saw = saw
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="connect-look")
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._sinks_next_s = self._topics_next_s = 0.0
        self._is_asking_sinks = self._is_asking_topics = False

    def list_tasks(self, connector: Connector, version: int) -> None:
        """Finds out which tasks a connector has; the answer is Listed or NotListed."""
        name = connector.common.name
        self.drop(name)
        watched = self._watched[name] = _Watched(connector, version, is_busy=True)
        self._pool.submit(self._list, name, watched)

    def measure(self, connector: Connector, version: int) -> None:
        """Reads the levels of a source that is paused or stopped: what it holds back in its system keeps growing."""
        name = connector.common.name
        known = self._watched.get(name)
        if connector.is_source and (known is None or known.version != version):
            self.drop(name)
            watched = self._watched[name] = _Watched(connector, version, is_busy=True)
            self._pool.submit(self._load, name, watched)

    def drop(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched is not None:
            with self._lock:
                watched.is_dropped = True
                if not watched.is_busy:
                    _close(watched)

    def park(self, name: str, task: int, seen: Mapping[TopicPartition, int]) -> None:
        if name in self._watched:
            self._watched[name].parked[task] = seen

    def unpark(self, name: str, task: int) -> None:
        if name in self._watched:
            self._watched[name].parked.pop(task, None)

    def close(self) -> None:
        for name in list(self._watched):
            self.drop(name)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def tick(self, now: float, offset_of: Callable[[str, Partition], Offset | None]) -> None:
        """Starts the looks that are due."""
        for name, watched in self._watched.items():
            if watched.source is not None and not watched.is_busy and now >= watched.next_s:
                options: Any = watched.connector.common
                interval_s = options.poll_interval_ms / 1000
                watched.next_s = now + (interval_s if watched.parked else max(interval_s, BUSY_EVERY_S))
                watched.is_busy = True
                looks = [
                    (task, [(part, offset_of(name, part)) for part in watched.tasks[task]]) for task in watched.parked
                ]
                self._pool.submit(self._look, name, watched, looks)
        self._tick_sinks(now)

    def _tick_sinks(self, now: float) -> None:
        sinks = [(name, watched) for name, watched in self._watched.items() if not watched.connector.is_source]
        if now >= self._sinks_next_s and not self._is_asking_sinks:
            parked = [(name, task, seen) for name, each in sinks for task, seen in each.parked.items()]
            if parked:
                self._sinks_next_s = now + SINKS_EVERY_S
                self._is_asking_sinks = True
                self._pool.submit(self._look_at_ends, parked)
        if now >= self._topics_next_s and sinks and not self._is_asking_topics:
            self._topics_next_s = now + TOPICS_EVERY_S
            self._is_asking_topics = True
            settled = [(name, each) for name, each in sinks if not each.is_busy]
            self._pool.submit(self._look_at_topics, settled)

    # --- on threads of the pool

    def _list(self, name: str, watched: _Watched) -> None:
        try:
            connector = watched.connector
            if connector.is_source:
                watched.source = connector.plugin.loaded(connector.own)
                watched.tasks = of_source(watched.source.partitions(), connector.common.tasks_max)
            else:
                watched.tasks = self._of_sink(connector)
            watched.is_listed = True
            sighting: Sighting = Listed(name, watched.version, watched.tasks)
        except Exception as failed:  # noqa: BLE001 (a connector may raise anything; the fleet retries and reports it)
            sighting = NotListed(name, watched.version, "".join(traceback.format_exception(failed)))
        self._settle(watched)
        self._saw(sighting)

    def _load(self, name: str, watched: _Watched) -> None:
        connector = watched.connector
        try:
            watched.source = connector.plugin.loaded(connector.own)
        except Exception as failed:  # noqa: BLE001 (a connector may raise anything; it is reported when it is started)
            _log.info("the source of %s is not measured: %s", name, failed)
        self._settle(watched)

    def _look(
        self, name: str, watched: _Watched, looks: Sequence[tuple[int, list[tuple[Partition, Offset | None]]]]
    ) -> None:
        source = watched.source
        try:
            if source is None:
                return
            tasks_max = watched.connector.common.tasks_max
            if watched.is_listed and of_source(source.partitions(), tasks_max) != watched.tasks:
                self._saw(Regrouped(name, watched.version))
                return
            for task, parts in looks:
                if any(source.has_news(partition, offset) for partition, offset in parts):
                    self._saw(News(name, task))
            now = time.monotonic()
            if now >= watched.measured_s:
                watched.measured_s = now + BUSY_EVERY_S
                self._saw(Measured(name, source.levels()))
        except Exception as failed:  # noqa: BLE001 (as above)
            # The task will meet the same error. It fails, reports it, and restarts with back-off.
            _log.info("looking for news of %s failed: %s", name, failed)
            for task, _ in looks:
                self._saw(News(name, task))
        finally:
            self._settle(watched)

    def _settle(self, watched: _Watched) -> None:
        with self._lock:
            watched.is_busy = False
            if watched.is_dropped:
                _close(watched)

    def _of_sink(self, connector: Connector) -> tuple[tuple[TopicPartition, ...], ...]:
        return distributed(self._partitions_of(connector, self._admin.partition_counts()), connector.common.tasks_max)

    def _partitions_of(self, connector: Connector, counts: Mapping[str, int]) -> list[TopicPartition]:
        options = connector.common
        if not isinstance(options, SinkOptions):
            return []
        if options.topics_regex:
            names = [name for name in sorted(counts) if re.fullmatch(options.topics_regex, name)]
            names = [name for name in names if not name.startswith("__")]
        else:
            names = [name for name in options.topics if name in counts]
        return [(name, index) for name in names for index in range(counts[name])]

    def _look_at_ends(self, parked: Sequence[tuple[str, int, Mapping[TopicPartition, int]]]) -> None:
        try:
            ends = self._admin.ends_of({place for _, _, seen in parked for place in seen})
            for name, task, seen in parked:
                if any(ends.get(place, 0) != offset for place, offset in seen.items()):
                    self._saw(News(name, task))
        except Exception as failed:  # noqa: BLE001 (no broker answers now; the next look is soon)
            _log.info("looking at the ends of topics failed: %s", failed)
            time.sleep(1)
        finally:
            self._is_asking_sinks = False

    def _look_at_topics(self, sinks: Sequence[tuple[str, _Watched]]) -> None:
        try:
            counts = self._admin.partition_counts()
            for name, watched in sinks:
                now = distributed(self._partitions_of(watched.connector, counts), watched.connector.common.tasks_max)
                if now != watched.tasks and not watched.is_dropped:
                    self._saw(Regrouped(name, watched.version))
        except Exception as failed:  # noqa: BLE001 (as above)
            _log.info("looking at the topics of sinks failed: %s", failed)
        finally:
            self._is_asking_topics = False


def _close(watched: _Watched) -> None:
    if watched.source is not None:
        with contextlib.suppress(Exception):
            watched.source.close()
        watched.source = None
