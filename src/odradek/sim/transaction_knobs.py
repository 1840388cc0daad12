"""What differs between two seeds with transactions, drawn from a separate stream: other draws do not change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from odradek.base.limits import producer_epoch_max
from odradek.sim.keyed import ACCOUNTS
from odradek.sim.knobs import Focus, Knobs, TopicPlan, TransactionPlan, with_patience

BOOKED = "booked"
_DAY_MS = "86400000"
# Where the copiers read.
INPUT = ("firm", 0)
COPIERS = "copiers"


def with_transactions(rng: Random, knobs: Knobs, focus: Focus) -> Knobs:
    """Only where internal topics lose nothing: a lost record of a coordinator may tear transactions, as in Kafka."""
    wanted = rng.random() < 0.6
    if not (wanted if focus.transacts is None else focus.transacts) or not knobs.groups_safe:
        return knobs
    sizes = {name: value for name, value in knobs.topics[0].configs.items() if name != "internal.segment.bytes"}
    topic = TopicPlan(
        name=BOOKED,
        partitions=rng.choice((1, 2, 3)),
        configs={**sizes, "internal.segment.bytes": rng.choice(("1000", "3000", "1048576"))},
        safe=True,
    )
    clocks_agree = not (knobs.clock_skew_ms or knobs.clock_drift_ppm or "clock jump" in knobs.faults)
    plan = TransactionPlan(
        topic=topic,
        old_producers=rng.choice((0, 1, 1)),
        new_producers=rng.choice((1, 1, 2)),
        twins=rng.random() < 0.5,
        copiers=rng.choice((0, 1, 2)),
        transactions_per_producer=rng.choice((10, 30)),
        timeout_ms=rng.choice((1_000, 3_000, 60_000)),
        clocks_agree=clocks_agree,
        epoch_max=rng.choice((5, 12, producer_epoch_max, producer_epoch_max)),
        accounts=_draw_accounts(rng, alone=knobs.nodes == 1) if rng.random() < 0.5 else None,
        keys=rng.choice((1, 3)),
    )
    broker = {
        **knobs.broker,
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(knobs.replicas),
        "transaction.state.log.min.isr": knobs.broker.get("min.insync.replicas", "1"),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice(("200", "1000")),
    }
    if plan.accounts is not None:
        broker["log.cleaner.backoff.ms"] = rng.choice(("20", "200"))
    return with_patience(replace(knobs, broker=broker, transactions=plan))


def _draw_accounts(rng: Random, *, alone: bool) -> TopicPlan:
    """In a cluster markers outlive the run: a replica that was away when one expired would wait for it for ever."""
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": rng.choice(("400", "1000")),
        "index.interval.bytes": rng.choice(("0", "300")),
        "file.delete.delay.ms": rng.choice(("0", "2000")),
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": rng.choice(("0", "0", "300")),
        "delete.retention.ms": rng.choice(("0", "500", _DAY_MS)) if alone else _DAY_MS,
    }
    return TopicPlan(name=ACCOUNTS, partitions=1, configs=configs, safe=True, compacts=True)
