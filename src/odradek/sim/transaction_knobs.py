"""What differs between two seeds with transactions, drawn from a separate stream: other draws do not change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from odradek.base.limits import producer_epoch_max
from odradek.sim.knobs import Focus, Knobs, TopicPlan, TransactionPlan

BOOKED = "booked"
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
    )
    broker = {
        **knobs.broker,
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(knobs.replicas),
        "transaction.state.log.min.isr": knobs.broker.get("min.insync.replicas", "1"),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice(("200", "1000")),
    }
    return replace(knobs, broker=broker, transactions=plan)
