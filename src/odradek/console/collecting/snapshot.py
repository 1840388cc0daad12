"""A cluster at one moment, as pages see it. Immutable: any thread may read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from odradek.console.finding import Finding
from odradek.monitor import cluster_health
from odradek.monitor.cluster_health import Disk
from odradek.monitor.lag.cluster_lag import GroupSummary
from odradek.monitor.lag.evaluation import Status, group_status

NO_LEADER = -1
# A group that is less far behind has no problem yet that a person should look at.
BEHIND_S = 60


class Partition(NamedTuple):
    number: int
    leader: int  # NO_LEADER
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(replica for replica in self.replicas if replica not in self.in_sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def replication(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)

    @property
    def under_replicated(self) -> list[Partition]:
        return [each for each in self.partitions if len(each.in_sync) < len(each.replicas)]

    @property
    def offline(self) -> list[Partition]:
        return [each for each in self.partitions if each.leader == NO_LEADER]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    path: str
    error: str | None  # the name of the error, for a directory that cannot be used
    bytes_total: int | None  # of its disk; None if the broker does not report it
    bytes_usable: int | None
    bytes_logs: int
    failed: tuple[str, ...] = ()  # partitions whose log is offline after an error

    @property
    def used_share(self) -> float | None:
        return cluster_health.used_share(self.bytes_total, self.bytes_usable)

    @property
    def state(self) -> Disk:
        return cluster_health.disk(
            error=self.error, failed=self.failed, total=self.bytes_total, usable=self.bytes_usable
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """What a node reports over its HTTP."""

    url: str
    started_ms: int | None = None
    version: str | None = None
    resident_bytes: int | None = None
    bytes_in: float | None = None  # counters
    bytes_out: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    problem: str | None  # why it gives no answer
    leads: int = 0
    replicas: int = 0
    log_dirs: tuple[LogDir, ...] = ()
    node: NodeFigures | None = None
    # Its share of the rates, in bytes per second; None if unknown.
    in_per_s: float | None = None
    out_per_s: float | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_alive(self) -> bool:
        return not self.is_fenced and self.problem is None

    @property
    def bytes_logs(self) -> int:
        return sum(each.bytes_logs for each in self.log_dirs)

    @property
    def fullest(self) -> LogDir | None:
        known = [each for each in self.log_dirs if each.used_share is not None]
        return max(known, key=lambda each: each.used_share or 0.0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    node_id: int
    directory_id: str
    is_voter: bool
    log_end: int
    lag: int
    silent_ms: int | None  # None: it has never fetched
    # Whether its broker answers the console. A node that has just died has fetched within the last seconds.
    answers: bool = True

    @property
    def follows(self) -> bool:
        return self.answers and cluster_health.follows(self.silent_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    leader: int | None
    epoch: int = -1
    high_watermark: int = -1
    members: tuple[Voter, ...] = ()
    endpoints: Mapping[int, str] = field(default_factory=dict)
    # Without a leader: voters that accept no connection.
    unreachable: tuple[int, ...] = ()

    @property
    def voters(self) -> list[Voter]:
        return [each for each in self.members if each.is_voter]

    @property
    def majority(self) -> int:
        return cluster_health.majority(len(self.voters))

    def without_answers_of(self, nodes: Collection[int]) -> Quorum:
        members = tuple(replace(each, answers=each.node_id not in nodes) for each in self.members)
        return replace(self, members=members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    state: str
    kind: str  # classic, consumer, share, streams; empty if the broker does not say
    protocol: str  # "consumer", or what the members speak
    coordinator: int
    lag: GroupSummary | None = None  # None without commits
    # How much lag grew in the last minutes, in records per second. None until there are samples of a whole minute.
    growth: float | None = None

    @property
    def rule(self) -> Status:
        """Burrow's rule, with two exceptions.

        A group whose lag grows is WARN even if the lag falls at times. One that has just begun to commit is no STOP.
        """
        if self.lag is None:
            return Status.OK
        seconds = self.lag.age.seconds
        if self.lag.worst is Status.OK and (self.growth or 0) >= 1 and seconds >= BEHIND_S:
            return Status.WARN
        return Status.OK if self.lag.worst is Status.STOP and seconds < BEHIND_S else self.lag.worst

    @property
    def status(self) -> str:
        """OK, WARN or ERR, as Burrow sums up the rules; empty without commits."""
        return "" if self.lag is None else group_status([self.rule]).name


class EventKind(Enum):
    BROKER_GONE = "broker gone"
    BROKER_BACK = "broker back"
    ELECTION = "election"
    CONTROLLER = "controller"
    ISR_SHRANK = "isr shrank"
    ISR_GREW = "isr grew"
    OFFLINE = "offline"
    ONLINE = "online"
    TOPIC = "topic"
    GROUP = "group"
    REBALANCE = "rebalance"
    DISK = "disk"
    TRANSACTION = "transaction"
    CONNECTOR = "connector"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ms: int
    kind: EventKind
    level: str  # "bad", "warn", "good" or "info"
    text: str
    path: str = ""  # the page with more, as "/topics/orders"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """`at_ms` is when it was read. Parts that are read less often have a time of their own in `read_ms`.

    Without slots: sums over all topics are cached, because several pages show the same snapshot.
    """

    at_ms: int
    number: int = 0
    cluster_id: str = ""
    controller: int | None = None
    brokers: tuple[Broker, ...] = ()
    topics: Mapping[str, Topic] = field(default_factory=dict)
    # By topic. `ends` and `starts` have an offset for each partition, -1 where it is unknown.
    ends: Mapping[str, Sequence[int]] = field(default_factory=dict)
    starts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of all replicas
    rates: Mapping[str, float] = field(default_factory=dict)  # records per second
    # min.insync.replicas, of topics that lack in-sync replicas
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    quorum: Quorum | None = None
    events: Sequence[Event] = ()
    read_ms: Mapping[str, int] = field(default_factory=dict)
    # False until all commits from before the start have been read.
    lag_is_known: bool = False
    # What was read for single pages, by the name of the part, and the problems found in it.
    parts: Mapping[str, object] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    # Why nothing could be read. The other fields are then those of the last answer.
    problem: str | None = None

    def broker(self, broker_id: int) -> Broker | None:
        return next((each for each in self.brokers if each.broker_id == broker_id), None)

    @property
    def is_empty(self) -> bool:
        """Nothing was ever read."""
        return not self.brokers

    @cached_property
    def short(self) -> Mapping[str, list[Partition]]:
        """By topic, the partitions that lack in-sync replicas, or have no leader."""
        found = {
            name: [each for each in topic.partitions if len(each.in_sync) < len(each.replicas) or each.leader < 0]
            for name, topic in self.topics.items()
        }
        return {name: partitions for name, partitions in found.items() if partitions}

    def refuses_writes(self, topic: str, partition: Partition) -> bool:
        """Whether its leader refuses acks=all, which is the default of producers."""
        needed = self.min_in_sync.get(topic)
        return partition.leader >= 0 and cluster_health.refuses_acks_all(
            len(partition.in_sync), len(partition.replicas), needed
        )

    def refusing(self, topic: Topic) -> list[Partition]:
        return [each for each in topic.partitions if self.refuses_writes(topic.name, each)]

    @cached_property
    def under_replicated(self) -> int:
        return sum(len(each.in_sync) < len(each.replicas) for few in self.short.values() for each in few)

    @cached_property
    def offline(self) -> int:
        return sum(each.leader < 0 for few in self.short.values() for each in few)

    @cached_property
    def records(self) -> int:
        """Stored in all partitions whose log start and end are known."""
        return sum(
            end - start
            for name, ends in self.ends.items()
            for start, end in zip(self.starts.get(name, ()), ends, strict=False)
            if start >= 0 and end >= 0
        )

    @cached_property
    def visible_topics(self) -> int:
        return sum(not topic.is_internal for topic in self.topics.values())

    @cached_property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @cached_property
    def records_per_s(self) -> float | None:
        return sum(self.rates.values()) if self.rates else None
