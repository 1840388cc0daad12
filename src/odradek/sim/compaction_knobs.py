"""What differs between two seeds that compact, drawn from a separate stream: other draws of a seed do not change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from odradek.sim.keyed import COMPACTED
from odradek.sim.knobs import CompactedPlan, Focus, Knobs, TopicPlan

_DAY_MS = "86400000"
# The configs that are changed on the topic in use, besides its policy.
RETUNED = {
    "internal.segment.bytes": ("400", "1000", "3000"),
    "min.cleanable.dirty.ratio": ("0.0", "0.3"),
    "min.compaction.lag.ms": ("0", "500"),
}


def with_compaction(rng: Random, knobs: Knobs, focus: Focus) -> Knobs:
    compacts = rng.random() < 0.5
    if not (compacts if focus.compacts is None else focus.compacts):
        return knobs
    deletions_stay = rng.random() < 0.5
    topic = _draw_topic(rng, groups_safe=knobs.groups_safe, deletions_stay=deletions_stay)
    broker = {**knobs.broker, "log.cleaner.backoff.ms": rng.choice(("20", "200", "1000"))}
    if topic.retention_bytes >= 0:
        broker["log.retention.check.interval.ms"] = "500"
    plan = CompactedPlan(
        topic=topic,
        keys=rng.choice((1, 3, 8)),
        idempotent_producers=rng.randrange(1, 3),
        plain_producers=rng.randrange(0, 2),
        batches_per_producer=rng.choice((100, 400)),
        deletions_stay=deletions_stay,
    )
    return replace(knobs, broker=broker, compacted=plan)


def _draw_topic(rng: Random, *, groups_safe: bool, deletions_stay: bool) -> TopicPlan:
    configs = {
        "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
        "internal.segment.bytes": rng.choice(("400", "1000", "3000")),
        "index.interval.bytes": rng.choice(("0", "300", "4096")),
        "segment.index.bytes": rng.choice(("48", "1024")),
        "file.delete.delay.ms": rng.choice(("0", "2000")),
        "min.cleanable.dirty.ratio": rng.choice(("0.0", "0.0", "0.3")),
        "min.compaction.lag.ms": rng.choice(("0", "0", "300")),
        "delete.retention.ms": _DAY_MS if deletions_stay else rng.choice(("0", "500")),
    }
    if rng.random() < 0.5:
        configs["flush.messages"] = "1"
    retention_bytes = rng.choice((500, 4_000)) if configs["cleanup.policy"] == "compact,delete" else -1
    if retention_bytes >= 0:
        configs["retention.bytes"] = str(retention_bytes)
    return TopicPlan(
        name=COMPACTED,
        partitions=rng.randrange(1, 3),
        configs=configs,
        # If the offsets of groups are safe without a sync, so is any topic.
        safe=groups_safe or "flush.messages" in configs,
        retention_bytes=retention_bytes,
        deleted_from=retention_bytes >= 0,
        compacts=True,
    )
