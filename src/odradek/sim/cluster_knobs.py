"""What differs between two seeds of a cluster, on top of what differs between two seeds of a node.

What may be lost depends on how power is cut. With `flush.messages=1` nothing is lost, however many machines lose power.
Without it, nothing is lost if one machine loses power at a time: only when all replicas of all partitions are in sync,
and not again before they are. Otherwise records that were not synced may be lost.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from odradek.metadata.configs.broker import RACK_AWARE_SELECTOR
from odradek.sim.inode import DiskKnobs
from odradek.sim.knobs import CHORES, CLUSTER_FAULTS, LOST_DISK, POWER_CUTS, Focus, Knobs, TopicPlan

GROWN = "grown"
# The configs that are changed on topics in use.
TUNED = {
    "internal.segment.bytes": ("3000", "10000", "1048576"),
    "index.interval.bytes": ("0", "300", "4096"),
    "min.insync.replicas": ("1", "2"),
    "max.message.bytes": ("100000", "1048588"),
}
COMBINED, BROKER, CONTROLLER = ("broker", "controller"), ("broker",), ("controller",)


def draw_cluster(rng: Random, knobs: Knobs, focus: Focus, brokers: int, controllers: int) -> Knobs:
    """Without separate controllers, all brokers are controllers, too."""
    roles = (COMBINED,) * brokers if not controllers else (BROKER,) * brokers + (CONTROLLER,) * controllers
    nodes = len(roles)
    drawn = tuple(fault for fault in CLUSTER_FAULTS if rng.random() < 0.5)
    faults = (*knobs.faults, *drawn) if focus.faults is None else focus.faults
    cuts = any(fault in POWER_CUTS or fault == "power cut of several" for fault in faults)
    at_once = _draw_at_once(rng, focus, faults, cuts=cuts)
    replicas = min(rng.choice((3, 3, 2)), brokers)
    min_isr = rng.choice((1, 2))
    session_ms = _draw_session_ms(rng, knobs.slow_call_mean_us)
    racks = rng.random() < 0.5
    chores = _draw_chores(rng, focus, faults)
    topics = knobs.topics
    if "growth" in chores:
        topics = (*topics, replace(topics[0], name=GROWN, partitions=1))
    syncs_all = "log.flush.interval.messages" in knobs.broker
    return replace(
        knobs,
        nodes=nodes,
        roles=roles,
        replicas=replicas,
        # With tiny pieces, no follower keeps up with the metadata of many topics.
        net=replace(knobs.net, piece_bytes_max=max(1_500, knobs.net.piece_bytes_max), window_bytes=65_536),
        disk=_disk(knobs.disk, faults, cuts=cuts, at_once=at_once),
        faults=faults,
        loses_power=cuts,
        power_cuts_at_once=at_once,
        fault_gap_mean_s=rng.choice((0.5, 1.5, 4.0)),
        duration_s=rng.choice((10.0, 20.0, 30.0)),
        clock_skew_ms=rng.choice((0, 1000, 300_000)),
        clock_drift_ppm=rng.choice((0, 100, 50_000)),
        down_max=rng.choice((1, nodes // 2, nodes - 1, nodes)),
        down_mean_s=rng.choice((0.2, 1.0, 5.0)),
        wall_mean_s=rng.choice((0.5, 2.0, 8.0)),
        topics=tuple(_replicated(topic, min_isr, at_once=at_once, syncs_all=syncs_all) for topic in topics),
        chores=chores,
        racks=racks,
        groups_safe=syncs_all or not at_once,
        broker={
            **knobs.broker,
            "offsets.topic.replication.factor": str(replicas),
            "min.insync.replicas": str(min_isr),
            **({"replica.selector.class": RACK_AWARE_SELECTOR} if racks else {}),
            **_draw_broker(rng, session_ms),
        },
    )


def _draw_at_once(rng: Random, focus: Focus, faults: tuple[str, ...], *, cuts: bool) -> bool:
    """Whether several machines may lose unsynced data at the same time."""
    at_once = cuts and "power cut of several" in faults
    if cuts and not at_once:
        at_once = rng.random() < 0.3
    if focus.one_power_cut_at_a_time is not None:
        at_once = cuts and not focus.one_power_cut_at_a_time
    return at_once


def _draw_session_ms(rng: Random, slow_us: int) -> int:
    """Commits wait for slow disks; a session must not time out before."""
    return rng.choice((1000, 3000, 6000) if slow_us <= 1_000 else (3000, 6000) if slow_us < 200_000 else (9000,))


def _disk(disk: DiskKnobs, faults: tuple[str, ...], *, cuts: bool, at_once: bool) -> DiskKnobs:
    if LOST_DISK in faults or (cuts and not at_once):
        # If a machine may lose its disk or unsynced data, the others are needed: none may stop on a disk error.
        return replace(disk, short_write=0.0, write_error=0.0, sync_error=0.0)
    # After a failed sync only a new boot of the machine helps, and that is a power cut of its own.
    return disk if at_once else replace(disk, sync_error=0.0)


def _draw_broker(rng: Random, session_ms: int) -> dict[str, str]:
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // rng.choice((3, 10))),
        "replica.lag.time.max.ms": rng.choice(("500", "2000", "10000")),
        # Small enough that nodes get metadata by snapshots.
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(("2000", "20000", "20971520")),
        "internal.metadata.log.segment.bytes": rng.choice(("20000", "8388608")),
    }


def _draw_chores(rng: Random, focus: Focus, faults: tuple[str, ...]) -> tuple[str, ...]:
    drawn = tuple(chore for chore in CHORES if rng.random() < 0.5)
    chosen = drawn if focus.chores is None else focus.chores
    # One voter removed on request and another lost with its disk: there would be no majority.
    return tuple(chore for chore in chosen if chore != "voters" or LOST_DISK not in faults)


def _replicated(topic: TopicPlan, min_isr: int, *, at_once: bool, syncs_all: bool) -> TopicPlan:
    syncs = syncs_all or topic.configs.get("flush.messages") == "1"
    return replace(
        topic,
        configs={**topic.configs, "min.insync.replicas": str(min_isr)},
        safe=syncs or not at_once,
    )
