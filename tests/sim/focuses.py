"""Worlds in which a missing rule shows within a few seeds: frequent faults of a few kinds, and busy clients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from odradek.sim.keyed import ACCOUNTS
from odradek.sim.knobs import STOPS, Focus, Knobs, TopicPlan

_DAY_MS = "86400000"
_CUTS = ("power cut", "power cut at a write")
_WALLS = ("wall around one", "one-way wall", "wall between halves")


def busy(knobs: Knobs, *, gap_s: float = 0.3, **disk: float) -> Knobs:
    """A fault every `gap_s`. Half of the sectors that were never synced survive a power cut."""
    return replace(
        knobs,
        fault_gap_mean_s=gap_s,
        duration_s=20.0,
        batches_per_producer=150,
        pause_mean_s=0.01,
        disk=replace(knobs.disk, sector_bytes=512, survival=0.5, **disk),
    )


def checkpointing(knobs: Knobs) -> Knobs:
    """Writes checkpoints often enough for topics that live for a second, and has time for them."""
    return replace(
        busy(knobs, gap_s=0.5),
        broker={**knobs.broker, "log.flush.offset.checkpoint.interval.ms": "200"},
        request_timeout_s=2.0,
        slow_call_mean_us=10,
        idempotent_producers=1,
        plain_producers=0,
        batches_per_producer=20,
        group_members=0,
    )


def with_segments(knobs: Knobs, *, size: str) -> Knobs:
    knobs = busy(knobs)
    sized = tuple(replace(topic, configs={**topic.configs, "internal.segment.bytes": size}) for topic in knobs.topics)
    return replace(knobs, topics=sized)


def compacting(knobs: Knobs, *, keys: int, batches: int = 400, gap_s: float = 0.3, plain_producers: int = 0) -> Knobs:
    """Compacts all the time. Tombstones outlive the run."""
    knobs = busy(knobs, gap_s=gap_s)
    assert knobs.compacted is not None
    configs = {
        **knobs.compacted.topic.configs,
        "cleanup.policy": "compact",
        "internal.segment.bytes": "400",
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": _DAY_MS,
        "retention.bytes": "-1",
    }
    topic = replace(knobs.compacted.topic, partitions=1, configs=configs, retention_bytes=-1, deleted_from=False)
    plan = replace(
        knobs.compacted,
        topic=topic,
        keys=keys,
        batches_per_producer=batches,
        idempotent_producers=2,
        plain_producers=plain_producers,
        deletions_stay=True,
    )
    return replace(knobs, broker={**knobs.broker, "log.cleaner.backoff.ms": "20"}, compacted=plan)


def transacting(
    knobs: Knobs, *, gap_s: float = 1.0, epoch_max: int = 1000, twins: bool = True, old: int = 1, **changes: Any
) -> Knobs:
    """Transactions all the time, on several partitions, and little else."""
    assert knobs.transactions is not None
    plan = replace(
        knobs.transactions,
        topic=replace(knobs.transactions.topic, partitions=3),
        old_producers=old,
        new_producers=1,
        twins=twins,
        transactions_per_producer=60,
        timeout_ms=60_000,
        epoch_max=epoch_max,
        **changes,
    )
    return replace(
        knobs,
        fault_gap_mean_s=gap_s,
        duration_s=4.0,
        pause_mean_s=0.02,
        request_timeout_s=0.5,
        slow_call_mean_us=1_000,
        batches_per_producer=20,
        plain_producers=0,
        idempotent_producers=1,
        group_members=0,
        net=replace(knobs.net, delay_mean_us=1_000, piece_bytes_max=65_536, window_bytes=65_536),
        disk=replace(knobs.disk, short_write=0.0, write_error=0.0, sync_error=0.0),
        transactions=plan,
    )


def with_accounts(knobs: Knobs) -> Knobs:
    """Writes a key or two of a compacted topic in most transactions. Markers expire soon after the records."""
    knobs = transacting(knobs, gap_s=0.5, twins=False)
    assert knobs.transactions is not None
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "400",
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "0",
    }
    accounts = TopicPlan(name=ACCOUNTS, partitions=1, configs=configs, safe=True, compacts=True)
    plan = replace(knobs.transactions, accounts=accounts, keys=2, copiers=0)
    return replace(knobs, duration_s=10.0, broker={**knobs.broker, "log.cleaner.backoff.ms": "20"}, transactions=plan)


def divided(knobs: Knobs) -> Knobs:
    """Leaders that are cut off keep markers that their successors do not have."""
    return restless(transacting(knobs, gap_s=0.5, copiers=0), slow_call_us=1_000, min_isr=1)


def transactions(*faults: str, **changes: Any) -> Focus:
    return Focus(
        faults=faults, syncs_all=True, compacts=False, chores=(), transacts=True, adjust=partial(transacting, **changes)
    )


def restless(knobs: Knobs, *, slow_call_us: int = 10, survival: float = 0.5, min_isr: int | None = None) -> Knobs:
    """A cluster that notices failures within a second, with a fault every half second."""
    in_sync = {} if min_isr is None else {"min.insync.replicas": str(min_isr)}
    broker = {
        **knobs.broker,
        **in_sync,
        "offsets.topic.replication.factor": "3",
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "300",
        "replica.lag.time.max.ms": "500",
    }
    return replace(
        knobs,
        replicas=3,
        fault_gap_mean_s=0.5,
        duration_s=20.0,
        down_max=3,
        down_mean_s=1.0,
        wall_mean_s=1.0,
        slow_call_mean_us=slow_call_us,
        batches_per_producer=150,
        pause_mean_s=0.1,
        clock_skew_ms=0,
        clock_drift_ppm=0,
        disk=replace(knobs.disk, survival=survival, short_write=0.0, write_error=0.0, sync_error=0.0),
        topics=tuple(replace(topic, configs={**topic.configs, **in_sync}) for topic in knobs.topics),
        broker=broker,
    )


def restless_and_compacting(knobs: Knobs) -> Knobs:
    return restless(compacting(knobs, keys=3), slow_call_us=1_000)


def cluster(*faults: str, min_isr: int | None = None) -> Focus:
    return Focus(faults=faults, chores=(), compacts=False, adjust=partial(restless, min_isr=min_isr))


STORM = Focus(faults=STOPS, adjust=busy)
# Topics that do not sync, in small and in large segments.
LOOSE_IN_SMALL_SEGMENTS = Focus(faults=_CUTS, syncs_all=False, adjust=partial(with_segments, size="3000"))
LOOSE_IN_LARGE_SEGMENTS = Focus(faults=_CUTS, syncs_all=False, adjust=partial(with_segments, size="1048576"))
SMALL_SEGMENTS = Focus(faults=STOPS, adjust=partial(with_segments, size="3000"))
KILLS = Focus(faults=("kill", "kill at a write", "clean stop"), adjust=busy)
POWER_CUTS = Focus(faults=("power cut",), adjust=busy)
CLEAN_STOPS = Focus(faults=("clean stop",), adjust=busy)
POWER_CUTS_AFTER_CLEAN_STOPS = Focus(faults=("power cut after a clean stop",), adjust=busy)
LOST_CONNECTIONS = Focus(faults=("clean stop", "reset"), adjust=busy)
BAD_DISK = Focus(faults=STOPS, adjust=partial(busy, write_error=0.02, short_write=0.02, sync_error=0.02))
FREQUENT_CHECKPOINTS = Focus(faults=("kill",), compacts=False, adjust=checkpointing)
SLOW_GROUPS = Focus(
    faults=("kill",),
    syncs_all=True,
    slow_call_mean_us=30_000,
    group_members=3,
    adjust=partial(busy, gap_s=1.0),
)
COMPACTING = Focus(faults=_CUTS, compacts=True, adjust=partial(compacting, keys=3))
TOMBSTONES = Focus(faults=("kill",), compacts=True, adjust=partial(compacting, keys=40, batches=100, gap_s=1.0))
SUPERSEDED_PRODUCERS = Focus(
    faults=("kill", "clean stop"),
    compacts=True,
    adjust=partial(compacting, keys=1, batches=30, plain_producers=2),
)

ISOLATION = cluster(*_WALLS, "slow way", min_isr=2)
ISOLATION_AND_KILLS = cluster(*_WALLS, "slow way", "kill", min_isr=1)
FENCING = cluster("kill", "wall around one")
ISOLATION_AND_COMPACTION = Focus(
    faults=("wall around one", "one-way wall", "slow way", "kill"),
    chores=(),
    compacts=True,
    adjust=restless_and_compacting,
)
# Many controller elections, and voters that forget what they did not write to disk.
UNREST = Focus(
    faults=("kill", "kill at a write", "power cut", "power cut at a write", "power cut of several", *_WALLS),
    chores=(),
    compacts=False,
    one_power_cut_at_a_time=False,
    adjust=partial(restless, slow_call_us=1_000, survival=0.3),
)
DIVERGENCE = Focus(faults=_WALLS, chores=(), compacts=False, adjust=partial(restless, slow_call_us=1_000))
# Voters that are removed and added again, so that candidates collide.
ELECTIONS = replace(UNREST, chores=("voters",), compacts=None, adjust=None)
SLOW_FOLLOWERS = Focus(
    faults=("power cut", "wall around one", "kill"),
    chores=(),
    compacts=False,
    one_power_cut_at_a_time=False,
    adjust=partial(restless, slow_call_us=30_000, survival=0.0, min_isr=2),
)
LOST_DISKS = Focus(faults=("lost disk", "wall around one", "kill"), chores=())

_INTERRUPTIONS = ("kill", "reset", "client pause")
TRANSACTIONS = transactions(*_INTERRUPTIONS)
FEW_EPOCHS = transactions(*_INTERRUPTIONS, epoch_max=5)
TRANSACTIONS_AND_COMPACTION = Focus(
    faults=("kill",), syncs_all=True, compacts=False, chores=(), transacts=True, adjust=with_accounts
)
DIVIDED_TRANSACTIONS = Focus(
    faults=(*_WALLS, "kill"), syncs_all=True, compacts=False, chores=(), transacts=True, adjust=divided
)
TRANSACTIONS_AND_KILLS = transactions("kill", gap_s=0.3)
TRANSACTIONS_AND_POWER_CUTS = transactions("power cut", gap_s=0.5)
