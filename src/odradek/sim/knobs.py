"""What differs between two seeds besides chance: sizes, delays, which faults exist at all.

Drawn for every seed. Each fault is off in about half of them (swarm testing): some rare combinations only show when
another fault does not hide them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from odradek.sim.history import Place
from odradek.sim.inode import DiskKnobs
from odradek.sim.net import NetKnobs

T = TypeVar("T")

# What the nemesis can do. The first group stops the node.
POWER_CUTS = ("power cut", "power cut at a write", "power cut after a clean stop", "power cut after a kill")
STOPS = (*POWER_CUTS, "kill", "kill at a write", "clean stop")
FAULTS = (*STOPS, "pause", "client pause", "clog", "reset", "clock jump")
# The second group needs several machines.
WALLS = ("wall around one", "one-way wall", "wall between halves", "wall before clients")
LOST_DISK = "lost disk"
_OF_CLUSTERS = ("slow way", "long pause", "full disk", "kill of several", "power cut of several", LOST_DISK)
CLUSTER_FAULTS = (*WALLS, *_OF_CLUSTERS)
# What operators do to a cluster in use.
CHORES = ("moves", "elections", "growth", "configs", "voters", "deletions")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    name: str
    partitions: int
    configs: dict[str, str]
    # Whatever happens in this run, it must not lose a record that was acknowledged or read.
    safe: bool
    # Retention may take its oldest records; at least this many bytes remain.
    retention_bytes: int = -1
    # A client asks for records to be deleted.
    deleted_from: bool = False

    # It keeps the latest record of each key.
    compacts: bool = False

    @property
    def shrinks(self) -> bool:
        return self.deleted_from or self.retention_bytes >= 0

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple((self.name, partition) for partition in range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPlan:
    """A topic that is compacted again and again while it is written to."""

    topic: TopicPlan
    keys: int
    idempotent_producers: int
    plain_producers: int
    batches_per_producer: int
    # Whether its deletions outlive the run. Otherwise a replica or reader that was away too long may have missed one.
    deletions_stay: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    """Producers that write in transactions, to a topic of their own."""

    topic: TopicPlan
    # A compacted topic that the same transactions write to.
    accounts: TopicPlan | None = None
    keys: int = 1
    # With one epoch for many transactions, and with an epoch for each (transaction.version 2).
    old_producers: int
    new_producers: int
    # Whether each has a twin with the same transactional id.
    twins: bool
    # Of one group and one transactional id: they copy records and commit the group's offset in the same transaction.
    copiers: int
    transactions_per_producer: int
    timeout_ms: int
    # Otherwise a transaction may time out at any moment, or much too late.
    clocks_agree: bool
    # Producers run out of epochs here. A run is too short for 32,767 transactions.
    epoch_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    nodes: int
    # What each machine is: broker, controller, or both.
    roles: tuple[tuple[str, ...], ...]
    # For each topic of the run, and for __consumer_offsets.
    replicas: int
    net: NetKnobs
    disk: DiskKnobs
    step_cost_ns: int
    slow_call_mean_us: int
    faults: tuple[str, ...]
    # Whether machines lose power now and then.
    loses_power: bool
    # Whether several machines may lose unsynced data at the same time.
    power_cuts_at_once: bool
    fault_gap_mean_s: float
    duration_s: float
    request_timeout_s: float
    pause_mean_s: float
    # How far apart clocks are at the beginning, and how much their speeds may differ.
    clock_skew_ms: int
    clock_drift_ppm: int
    # How many machines may be down at once.
    down_max: int
    down_mean_s: float
    wall_mean_s: float
    topics: tuple[TopicPlan, ...]
    broker: dict[str, str]
    # Whether __consumer_offsets is synced before a commit is acknowledged, or cannot lose anything in this run.
    groups_safe: bool
    idempotent_producers: int
    plain_producers: int
    group_members: int
    batches_per_producer: int
    chores: tuple[str, ...] = ()
    # Whether brokers and some of the readers have racks, so that they read from followers.
    racks: bool = False
    compacted: CompactedPlan | None = None
    transactions: TransactionPlan | None = None

    @property
    def all_topics(self) -> tuple[TopicPlan, ...]:
        plans = (self.compacted, self.transactions)
        return (*self.topics, *(plan.topic for plan in plans if plan is not None))

    @property
    def created_topics(self) -> tuple[TopicPlan, ...]:
        """Also those with checks of their own."""
        plan = self.transactions
        return self.all_topics if plan is None or plan.accounts is None else (*self.all_topics, plan.accounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """Values that are fixed instead of drawn, for a test of something rare."""

    faults: tuple[str, ...] | None = None
    syncs_all: bool | None = None
    slow_call_mean_us: int | None = None
    group_members: int | None = None
    retention_bytes: int | None = None
    one_power_cut_at_a_time: bool | None = None
    chores: tuple[str, ...] | None = None
    compacts: bool | None = None
    recompresses: bool | None = None
    transacts: bool | None = None
    # Changes what was drawn, in the end.
    adjust: Callable[[Knobs], Knobs] | None = None


def with_patience(knobs: Knobs) -> Knobs:
    """Clients wait for several slow calls in a row.

    A retry usually finds the work of the request before it done. Some work begins anew with each retry: a batch is
    recompressed, an epoch is written. Clients that give up sooner than that would never make progress.
    """
    return replace(knobs, request_timeout_s=max(knobs.request_timeout_s, 10 * knobs.slow_call_mean_us / 1e6))


def draw(rng: Random, focus: Focus) -> Knobs:
    faults = tuple(fault for fault in FAULTS if rng.random() < 0.5)
    if focus.faults is not None:
        faults = focus.faults
    syncs_all = _or(focus.syncs_all, rng.random() < 0.5)
    disk = _draw_disk(rng)
    # After a failed sync only a new boot of the machine helps, and that is a power cut.
    loses_power = disk.sync_error > 0 or any(fault in POWER_CUTS for fault in faults)
    return Knobs(
        nodes=1,
        roles=(("broker", "controller"),),
        replicas=1,
        net=_draw_net(rng),
        disk=disk,
        step_cost_ns=rng.choice((0, 1_000, 20_000)),
        slow_call_mean_us=_or(focus.slow_call_mean_us, rng.choice((10, 10, 1_000, 1_000, 30_000, 30_000, 200_000))),
        faults=faults,
        loses_power=loses_power,
        power_cuts_at_once=loses_power,
        fault_gap_mean_s=rng.choice((0.3, 1.0, 3.0)),
        duration_s=rng.choice((5.0, 10.0, 20.0)),
        request_timeout_s=rng.choice((0.5, 2.0, 10.0)),
        pause_mean_s=rng.choice((0.01, 0.1, 0.3)),
        clock_skew_ms=0,
        clock_drift_ppm=0,
        down_max=1,
        down_mean_s=0.5,
        wall_mean_s=0.0,
        topics=_draw_topics(rng, focus, syncs_all=syncs_all, loses_power=loses_power),
        broker=_draw_broker(rng, syncs_all=syncs_all),
        groups_safe=syncs_all or not loses_power,
        idempotent_producers=rng.randrange(1, 3),
        plain_producers=rng.randrange(0, 2),
        group_members=_or(focus.group_members, rng.choice((0, 0, 2, 3))),
        batches_per_producer=rng.choice((20, 60, 150)),
    )


def _or(wanted: T | None, drawn: T) -> T:
    return drawn if wanted is None else wanted


def _draw_net(rng: Random) -> NetKnobs:
    return NetKnobs(
        delay_min_us=rng.choice((10, 500)),
        delay_mean_us=rng.choice((50, 1_000, 20_000)),
        quantum_us=rng.choice((1, 1_000)),
        piece_bytes_max=rng.choice((100, 1_500, 65_536)),
        window_bytes=rng.choice((2_000, 65_536)),
        straggle=rng.choice((0.0, 0.0, 0.01)),
    )


def _draw_disk(rng: Random) -> DiskKnobs:
    return DiskKnobs(
        sector_bytes=rng.choice((512, 512, 4096)),
        survival=rng.choice((0.0, 0.3, 0.7, 1.0)),
        short_write=rng.choice((0.0, 0.0, 0.0, 0.005)),
        write_error=rng.choice((0.0, 0.0, 0.0, 0.005)),
        sync_error=rng.choice((0.0, 0.0, 0.0, 0.01)),
    )


def _draw_topics(rng: Random, focus: Focus, *, syncs_all: bool, loses_power: bool) -> tuple[TopicPlan, ...]:
    segment_bytes = rng.choice((3_000, 10_000, 1 << 20))
    sizes = {
        "internal.segment.bytes": str(segment_bytes),
        "index.interval.bytes": rng.choice(("0", "300", "4096")),
        "segment.index.bytes": rng.choice(("48", "1024")),
        "file.delete.delay.ms": rng.choice(("0", "2000")),
    }
    retention_bytes = _or(focus.retention_bytes, rng.choice((100, 4_000, 20_000)))
    return (
        TopicPlan(name="loose", partitions=rng.randrange(1, 3), configs=sizes, safe=syncs_all or not loses_power),
        TopicPlan(name="firm", partitions=1, configs={**sizes, "flush.messages": "1"}, safe=True),
        TopicPlan(
            name="cut-short",
            partitions=1,
            configs={**sizes, "retention.bytes": str(retention_bytes)},
            safe=syncs_all or not loses_power,
            retention_bytes=retention_bytes,
        ),
        TopicPlan(
            name="trimmed",
            partitions=1,
            configs={**sizes, "flush.messages": "1"},
            safe=True,
            deleted_from=True,
        ),
    )


def _draw_broker(rng: Random, *, syncs_all: bool) -> dict[str, str]:
    settings = {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": rng.choice(("0", "500")),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("200", "60000")),
        "log.retention.check.interval.ms": rng.choice(("500", "300000")),
    }
    if syncs_all:
        settings["log.flush.interval.messages"] = "1"
    elif rng.random() < 0.5:
        settings["log.flush.interval.ms"] = "300"
    return settings
