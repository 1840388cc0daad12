"""Groups by state, members and committed offsets, counted when a snapshot is collected."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.base.ports import Clock
from odradek.coordinator.engine import Phase
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.runtime import Runtime
from odradek.monitor.catalogue import groups as catalogue
from odradek.monitor.registry import Reading, Registry

BY_STATE = {
    GroupState.PREPARING_REBALANCE: catalogue.PREPARING,
    GroupState.COMPLETING_REBALANCE: catalogue.COMPLETING,
    GroupState.STABLE: catalogue.STABLE,
    GroupState.EMPTY: catalogue.EMPTY,
    GroupState.DEAD: catalogue.DEAD,
}


def measure_groups(registry: Registry, groups: Runtime[GroupShard], clock: Clock) -> None:
    registry.source(lambda: _groups(groups))
    registry.gauge(catalogue.LOAD_TIME_MAX, lambda: groups.load_ms.maximum(clock.monotonic_ns()))
    registry.gauge(catalogue.LOAD_TIME_AVG, lambda: groups.load_ms.average(clock.monotonic_ns()))


def _groups(groups: Runtime[GroupShard]) -> Iterator[Reading | None]:
    states = dict.fromkeys(BY_STATE, 0)
    phases = {Phase.LOADING: 0, Phase.ACTIVE: 0}
    members = offsets = count = 0
    for phase, shard in groups.hosted():
        if phase not in phases:
            continue
        phases[phase] += 1
        for group in list(shard.groups.values()):
            states[group.state] += 1
            members += len(group.members)
            offsets += len(shard.offsets.latest(group.group_id))
            count += 1
            yield None
    for state, metric in BY_STATE.items():
        yield Reading(metric, (), states[state])
    yield Reading(catalogue.GROUPS, (), count)
    yield Reading(catalogue.OFFSETS, (), offsets)
    yield Reading(catalogue.MEMBERS, (), members)
    yield Reading(catalogue.BY_PROTOCOL, ("classic",), count)
    for phase, partitions in phases.items():
        yield Reading(catalogue.COORDINATED_PARTITIONS, (phase.value,), partitions)
