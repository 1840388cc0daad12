"""Every partition of a broker on its own, if metrics.partitions.enable is true."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.monitor.catalogue import partitions as catalogue
from odradek.monitor.registry import Reading, Registry
from odradek.replication.partition import Partition
from odradek.server.broker import Broker
from odradek.server.metrics.broker import REPLICA_FETCHER, SEGMENTS_PER_READING


def measure_partitions(registry: Registry, broker: Broker) -> None:
    """The config is read with each snapshot, as it may change while the broker runs."""
    registry.source(lambda: _partitions(broker) if broker.config.metrics_partitions_enable else ())


def _partitions(broker: Broker) -> Iterator[Reading | None]:
    for partition in list(broker.partitions.all()):
        for _ in range(partition.log.segment_count // SEGMENTS_PER_READING):
            yield None
        yield from _partition(partition)


def _partition(partition: Partition) -> Iterator[Reading]:
    log, labels = partition.log, (partition.topic, str(partition.index))
    yield Reading(catalogue.SIZE, labels, log.size_bytes)
    yield Reading(catalogue.LOG_START_OFFSET, labels, log.log_start_offset)
    yield Reading(catalogue.LOG_END_OFFSET, labels, log.log_end_offset)
    yield Reading(catalogue.SEGMENTS, labels, log.segment_count)
    bytes_max = log.config.retention_bytes
    yield Reading(catalogue.RETENTION_PERCENT, labels, log.size_bytes * 100 // bytes_max if bytes_max > 0 else 0)
    if not partition.is_leader:
        yield Reading(catalogue.FOLLOWER_LAG, (REPLICA_FETCHER, *labels), partition.behind)
        return
    in_sync, min_isr = len(partition.isr), partition.min_isr
    yield Reading(catalogue.REPLICAS, labels, len(partition.replicas))
    yield Reading(catalogue.IN_SYNC_REPLICAS, labels, in_sync)
    yield Reading(catalogue.UNDER_REPLICATED, labels, int(in_sync < len(partition.replicas)))
    yield Reading(catalogue.UNDER_MIN_ISR, labels, int(in_sync < min_isr))
    yield Reading(catalogue.AT_MIN_ISR, labels, int(in_sync == min_isr))
    yield Reading(catalogue.LAST_STABLE_OFFSET_LAG, labels, partition.high_watermark - partition.last_stable_offset)
