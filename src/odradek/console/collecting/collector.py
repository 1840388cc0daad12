"""The thread that keeps the snapshot of a cluster. Pages read the last one, and never wait for a broker."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from odradek.client.wire import NoAnswer
from odradek.console.collecting import figures, layout
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.events import EVENTS_MAX, happened
from odradek.console.collecting.history import SAMPLES_MAX, History, growth
from odradek.console.collecting.node_figures import NodeReader
from odradek.console.collecting.parts import Part, Parts
from odradek.console.collecting.snapshot import Broker, Event, Group, LogDir, Snapshot
from odradek.watch.watched_cluster import WatchedCluster, now_ms

logger = logging.getLogger(__name__)

TURN_S = 1.0
# A part is read again at this interval, but never takes more than this share of the time: a cluster with very many
# partitions is asked less often.
OFFSETS_EVERY_S = 4.0
DISKS_EVERY_S = 5.0
GROUPS_EVERY_S = 2.0
NODES_EVERY_S = 4.0
LAG_EVERY_S = 4.0
SHARE_MAX = 0.2
# A node collects its metrics on its event loop, and all series at once.
NODES_SHARE_MAX = 0.05
STOP_WAIT_S = 2.0


class Collector:
    def __init__(self, cluster: Cluster, watched: WatchedCluster, nodes: NodeReader) -> None:
        self._cluster = cluster
        self._watched = watched
        self._nodes = nodes
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._due = _Due()
        self._parts = Parts()
        self._first_read = threading.Event()
        self.snapshot = Snapshot(at_ms=now_ms())
        self.totals = History(SAMPLES_MAX)
        self.history = History()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="odradek-console", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_WAIT_S)
        self._parts.close()

    def listen(self, listener: Callable[[Snapshot], None]) -> None:
        """`listener` gets each new snapshot, on the collector's thread."""
        self._listeners.append(listener)

    def add(self, parts: Iterable[Part]) -> None:
        """Before `start`."""
        self._parts.add(parts)

    def wait_for_first(self, within_s: float) -> None:
        self._first_read.wait(within_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self.turn()
            except Exception as bug:  # the thread goes on: a console that stands still would show no problem
                logger.exception("a turn failed")
                self.snapshot = replace(self.snapshot, problem=f"the console cannot read it: {type(bug).__name__}")
            self._stopping.wait(max(TURN_S - (time.monotonic() - began_s), TURN_S / 10))

    def turn(self) -> None:
        before = self.snapshot
        try:
            now = self._read(before)
        except NoAnswer as failure:
            now = replace(before, number=before.number + 1, problem=str(failure), brokers=_silent(before, str(failure)))
            self._events.extend(happened(before, now))
            now = replace(now, events=tuple(self._events))
        self.snapshot = now
        self._first_read.set()
        for listener in self._listeners:
            listener(now)

    def _read(self, before: Snapshot) -> Snapshot:
        at_ms = now_ms()
        found = layout.read_layout(self._cluster, {each.broker_id: each for each in before.brokers})
        alive = [each.broker_id for each in found.brokers if each.problem is None]
        silent = [each.broker_id for each in found.brokers if each.problem is not None]
        quorum = layout.read_quorum(self._cluster)
        # A part that cannot be read keeps the last values.
        now = replace(
            before,
            at_ms=at_ms,
            number=before.number + 1,
            problem=None,
            cluster_id=found.cluster_id,
            controller=found.controller,
            topics=found.topics,
            quorum=None if quorum is None else quorum.without_answers_of(silent),
            min_in_sync=figures.read_min_in_sync(
                self._cluster, [each.name for each in found.topics.values() if each.under_replicated]
            ),
        )
        read_ms = dict(before.read_ms) | {"layout": at_ms}
        now = self._offsets(now, before, alive, read_ms)
        now = self._groups(now, alive, read_ms)
        now = replace(now, brokers=self._brokers(found.brokers, before, read_ms), read_ms=read_ms)
        now = self._disks(now, alive, read_ms)
        values, found_by_parts, news = self._parts.turn(now)
        self._events.extend([*happened(before, now), *news])
        now = replace(now, parts=values, findings=tuple(found_by_parts), events=tuple(self._events))
        self._record(now, read_ms)
        return now

    def _offsets(self, now: Snapshot, before: Snapshot, alive: list[int], read_ms: dict[str, int]) -> Snapshot:
        if not self._due.is_now("offsets", OFFSETS_EVERY_S):
            return now
        with self._due.measured("offsets"):
            at_ms = now_ms()
            ends = figures.read_offsets(self._cluster, now.topics, alive, figures.LATEST)
            starts: Mapping[str, list[int]] = now.starts  # type: ignore[assignment]
            if self._due.is_now("starts", 5 * OFFSETS_EVERY_S) or starts.keys() != now.topics.keys():
                with self._due.measured("starts"):
                    starts = figures.read_offsets(self._cluster, now.topics, alive, figures.EARLIEST)
        passed_s = (at_ms - before.read_ms["offsets"]) / 1000 if "offsets" in before.read_ms else 0.0
        rates = {
            name: rate for name in ends if (rate := _rate(before.ends.get(name), ends[name], passed_s)) is not None
        }
        read_ms["offsets"] = at_ms
        return replace(now, ends=ends, starts=starts, rates=rates)

    def _groups(self, now: Snapshot, alive: list[int], read_ms: dict[str, int]) -> Snapshot:
        groups = dict(now.groups)
        if self._due.is_now("groups", GROUPS_EVERY_S):
            with self._due.measured("groups"):
                groups = {
                    name: replace(group, lag=groups[name].lag, growth=groups[name].growth) if name in groups else group
                    for name, group in figures.read_groups(self._cluster, alive).items()
                }
            read_ms["groups"] = now_ms()
        if self._due.is_now("lag", LAG_EVERY_S) or any(each.lag is None for each in groups.values()):
            with self._due.measured("lag"):
                groups = {name: self._with_lag(group) for name, group in groups.items()}
            read_ms["lag"] = now_ms()
        return replace(now, groups=groups, lag_is_known=self._watched.is_ready)

    def _with_lag(self, group: Group) -> Group:
        lag = self._watched.summary(group.name)
        behind = lag is not None and lag.total_lag
        return replace(group, lag=lag, growth=growth(self.history.points(f"group/{group.name}")) if behind else None)

    def _brokers(self, found: tuple[Broker, ...], before: Snapshot, read_ms: dict[str, int]) -> tuple[Broker, ...]:
        """With what was read of their disks and over their HTTP."""
        kept = {each.broker_id: each for each in before.brokers}
        brokers = [
            replace(
                each,
                log_dirs=was.log_dirs,
                node=was.node if each.problem is None else None,
                in_per_s=was.in_per_s,
                out_per_s=was.out_per_s,
            )
            if (was := kept.get(each.broker_id))
            else each
            for each in found
        ]
        if self._due.is_now("nodes", NODES_EVERY_S, NODES_SHARE_MAX):
            with self._due.measured("nodes"):
                brokers = self._nodes.read(brokers)
            read_ms["nodes"] = now_ms()
        return tuple(brokers)

    def _disks(self, now: Snapshot, alive: list[int], read_ms: dict[str, int]) -> Snapshot:
        if not self._due.is_now("disks", DISKS_EVERY_S):
            return now
        with self._due.measured("disks"):
            directories, sizes = figures.read_log_dirs(self._cluster, alive)
        read_ms["disks"] = now_ms()
        brokers = tuple(replace(each, log_dirs=_log_dirs(each, directories)) for each in now.brokers)
        return replace(now, brokers=brokers, sizes=sizes)

    def _record(self, now: Snapshot, read_ms: Mapping[str, int]) -> None:
        at_ms = now.at_ms
        if read_ms.get("offsets", 0) >= at_ms:
            self.totals.add(at_ms, {"records": now.records_per_s})
            self.history.add(at_ms, {f"topic/{name}": rate for name, rate in now.rates.items()})
        if read_ms.get("nodes", 0) >= at_ms:
            self.totals.add(at_ms, {"in": _sum(each.in_per_s for each in now.brokers)})
            self.totals.add(at_ms, {"out": _sum(each.out_per_s for each in now.brokers)})
            self.history.add(at_ms, {f"in/{each.broker_id}": each.in_per_s for each in now.brokers})
            self.history.add(at_ms, {f"out/{each.broker_id}": each.out_per_s for each in now.brokers})
        if read_ms.get("lag", 0) >= at_ms:
            lags = {name: group.lag.total_lag for name, group in now.groups.items() if group.lag is not None}
            self.totals.add(at_ms, {"lag": float(sum(lags.values())), "bad groups": float(_bad(now.groups))})
            self.history.add(at_ms, {f"group/{name}": float(lag) for name, lag in lags.items()})
            self.history.add(at_ms, dict(_lag_by_topic(now.groups)))
            self.history.forget_others("group/", now.groups)
            self.history.forget_others("lag/", dict(_lag_by_topic(now.groups, prefix="")))
            self.history.forget_others("topic/", now.topics)
        self.totals.add(at_ms, {"under-replicated": float(now.under_replicated)})


class _Due:
    """When each part is read next. A slow part is read less often."""

    def __init__(self) -> None:
        self._last_s: dict[str, float] = {}
        self._took_s: dict[str, float] = {}
        self._began_s = 0.0

    def is_now(self, part: str, every_s: float, share_max: float = SHARE_MAX) -> bool:
        pause_s = max(every_s, self._took_s.get(part, 0.0) / share_max)
        # Half a turn early rather than half a turn late.
        return part not in self._last_s or time.monotonic() - self._last_s[part] >= pause_s - TURN_S / 2

    def measured(self, part: str) -> _Measured:
        return _Measured(self, part)

    def took(self, part: str, began_s: float, ended_s: float) -> None:
        self._last_s[part] = began_s
        self._took_s[part] = ended_s - began_s


class _Measured:
    def __init__(self, due: _Due, part: str) -> None:
        self._due, self._part = due, part
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._due.took(self._part, self._began_s, time.monotonic())


def _rate(before: object, ends: list[int], passed_s: float) -> float | None:
    """None if an end is unknown, or in the first sample."""
    if not isinstance(before, list) or len(before) != len(ends) or passed_s <= 0:
        return None
    if figures.UNKNOWN in before or figures.UNKNOWN in ends:
        return None
    return max(sum(ends) - sum(before), 0) / passed_s


def _silent(before: Snapshot, why: str) -> tuple[Broker, ...]:
    return tuple(replace(each, problem=each.problem or why, node=None) for each in before.brokers)


def _log_dirs(broker: Broker, directories: Mapping[int, tuple[LogDir, ...]]) -> tuple[LogDir, ...]:
    return directories.get(broker.broker_id, broker.log_dirs)


def _sum(values: object) -> float | None:
    known = [value for value in values if value is not None]  # type: ignore[attr-defined]
    return sum(known) if known else None


def lag_figure(group: str, topic: str, prefix: str = "lag/") -> str:
    """The name of the figure that is the lag of a group in one topic. Topics have no slashes, groups may."""
    return f"{prefix}{topic}/{group}"


def _lag_by_topic(groups: Mapping[str, Group], prefix: str = "lag/") -> Iterator[tuple[str, float]]:
    for name, group in groups.items():
        for topic, lag in group.lag.lag_by_topic.items() if group.lag is not None else ():
            yield lag_figure(name, topic, prefix), float(lag)


def _bad(groups: Mapping[str, Group]) -> int:
    return sum(group.status in ("WARN", "ERR") for group in groups.values())
