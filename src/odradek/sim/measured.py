"""What the metrics of the nodes say when all is quiet, against what is true."""

from __future__ import annotations

from odradek.monitor.catalogue import broker, monitoring, quorum
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry
from odradek.node.build import Node
from odradek.sim.history import Violation
from odradek.sim.truth import Truth


def check_metrics(truth: Truth) -> None:
    """M1: every node can be measured, and what it says of itself and of the cluster is true."""
    running = truth.running()
    partitions = list(truth.partitions())
    expected = {
        quorum.PARTITIONS: len(partitions),
        quorum.OFFLINE_PARTITIONS: 0,
        quorum.FENCED_BROKERS: 0,
        quorum.UNAPPLIED: 0,
        broker.UNDER_REPLICATED: 0,
        broker.UNDER_MIN_ISR: 0,
        broker.OFFLINE_REPLICAS: 0,
        broker.REASSIGNING: 0,
    }
    sums = dict.fromkeys((quorum.ACTIVE_CONTROLLERS, broker.LEADER_COUNT, broker.PARTITION_COUNT), 0.0)
    for each in running:
        values = measured(each.node)
        for metric, value in expected.items():
            if values.get(metric, value) != value:
                raise Violation(f"M1 node {each.number} says {metric.name} {values[metric]}, not {value}")
        for metric in sums:
            sums[metric] += values.get(metric, 0)
    replicas = sum(len(partition.replicas) for _, _, partition in partitions)
    for metric, value in zip(sums, (1, len(partitions), replicas), strict=True):
        if sums[metric] != value:
            raise Violation(f"M1 all nodes together say {metric.name} {sums[metric]}, not {value}")


def measured(node: Node) -> dict[Metric, float]:
    """The numbers without labels."""
    registry: Registry | None = node.registry
    if registry is None:
        return {}
    snapshot = registry.snapshot()
    values = {
        each.metric: float(each.value)
        for each in snapshot
        if not any(each.labels) and isinstance(each.value, int | float)
    }
    if values[monitoring.READINGS_FAILED]:
        raise Violation("M1 a metric could not be read")
    return values
