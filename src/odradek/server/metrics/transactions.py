"""Transactions by state, markers that wait, and loading times, counted when a snapshot is collected."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.base.ports import Clock
from odradek.coordinator.engine import Phase
from odradek.coordinator.runtime import Runtime
from odradek.coordinator.transaction.shard import TransactionShard
from odradek.coordinator.transaction.states import State
from odradek.monitor.catalogue import transactions as catalogue
from odradek.monitor.registry import Reading, Registry


def measure_transactions(registry: Registry, transactions: Runtime[TransactionShard], clock: Clock) -> None:
    registry.source(lambda: _transactions(transactions))
    registry.gauge(catalogue.LOAD_TIME_MAX, lambda: transactions.load_ms.maximum(clock.monotonic_ns()))
    registry.gauge(catalogue.LOAD_TIME_AVG, lambda: transactions.load_ms.average(clock.monotonic_ns()))


def _transactions(transactions: Runtime[TransactionShard]) -> Iterator[Reading | None]:
    states = dict.fromkeys(State, 0)
    phases = {Phase.LOADING: 0, Phase.ACTIVE: 0}
    retried = unstored = unconfirmed = 0
    for phase, shard in transactions.hosted():
        if phase not in phases:
            continue
        phases[phase] += 1
        retried += shard.markers.retried_count
        unconfirmed += len(shard.markers)
        unstored += shard.unstored_count
        for transaction in list(shard.transactions.newest.values()):
            states[transaction.state] += 1
            yield None
    for state, count in states.items():
        yield Reading(catalogue.TRANSACTIONS, (state.value,), count)
    for phase, partitions in phases.items():
        yield Reading(catalogue.COORDINATED_PARTITIONS, (phase.value,), partitions)
    yield Reading(catalogue.UNKNOWN_DESTINATION, (), retried)
    yield Reading(catalogue.LOG_APPEND_RETRY, (), unstored)
    yield Reading(catalogue.UNCONFIRMED, (), unconfirmed)
