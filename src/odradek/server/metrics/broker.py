"""What a broker is like: replicas, logs, parked requests, connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from odradek.base.limits import partial_requests_bytes_max
from odradek.monitor.catalogue import broker as catalogue
from odradek.monitor.catalogue import transactions
from odradek.monitor.registry import Labels, Reading, Registry
from odradek.replication.partition import Partition
from odradek.replication.partition_table import PartitionTable
from odradek.server.broker import Broker
from odradek.server.fetchers import Fetchers
from odradek.server.network.listener import ClientListener

REPLICA_FETCHER = "Replica"
# As in Kafka: after its timeout, a transaction may wait for its coordinator and its marker.
LATE_BUFFER_MS = 5 * 60 * 1000
# The size of a log is the sum over its segments.
SEGMENTS_PER_READING = 50


def measure_listener(registry: Registry, listener: ClientListener, name: str) -> None:
    labels = (name, catalogue.PROCESSOR)
    registry.gauge(catalogue.CONNECTIONS, lambda: listener.connection_count, *labels)
    for total, rate, count in (
        (catalogue.CONNECTIONS_MADE, catalogue.CONNECTIONS_MADE_RATE, lambda: listener.connections_made),
        (catalogue.CONNECTIONS_CLOSED, catalogue.CONNECTIONS_CLOSED_RATE, lambda: listener.connections_lost),
        (catalogue.SOCKET_BYTES_IN, catalogue.SOCKET_BYTES_IN_RATE, lambda: listener.bytes_in),
        (catalogue.SOCKET_BYTES_OUT, catalogue.SOCKET_BYTES_OUT_RATE, lambda: listener.bytes_out),
        (catalogue.LISTENER_REQUESTS, catalogue.LISTENER_REQUESTS_RATE, lambda: _requests(listener)),
    ):
        registry.gauge(total, count, *labels)
        registry.rate(rate, count, *labels)
    registry.rate(catalogue.ACCEPT_RATE, lambda: listener.connections_made, name)
    registry.gauge(catalogue.LISTENER_EXPIRED, lambda: listener.connections_expired, *labels)
    registry.gauges(catalogue.CLIENT_SOFTWARE, lambda: _software(listener, labels))


def _software(listener: ClientListener, labels: Labels) -> Iterator[tuple[Labels, int]]:
    for software, count in Counter(listener.software()).items():
        yield (software.name, software.version, *labels), count


def _requests(listener: ClientListener) -> int:
    return 0 if listener.observer is None else listener.observer.requests


def measure_broker(registry: Registry, broker: Broker, clients: ClientListener, fetchers: Fetchers) -> None:
    tally, sessions = broker.tally, broker.fetch_sessions
    registry.source(lambda: _replicas(broker.partitions, _late_before_ms(broker)))
    for operation, parked in (
        ("Produce", lambda: tally.parked_produces),
        ("Fetch", lambda: len(broker.parked_fetches)),
        ("DeleteRecords", lambda: tally.parked_deletions),
    ):
        registry.gauge(catalogue.PURGATORY_SIZE, parked, operation)
        registry.gauge(catalogue.DELAYED_OPERATIONS, parked, operation)
    registry.gauge(catalogue.DEAD_FETCHERS, lambda: fetchers.dead_count, REPLICA_FETCHER)
    registry.gauge(catalogue.EXPIRED_CONNECTIONS, lambda: clients.connections_expired)
    pool = clients.frame_pool
    registry.gauge(catalogue.MEMORY_POOL_USED, lambda: pool.bytes_in_use)
    registry.gauge(catalogue.MEMORY_POOL_AVAILABLE, lambda: partial_requests_bytes_max - pool.bytes_in_use)
    registry.gauge(catalogue.FETCH_SESSIONS, lambda: len(sessions))
    registry.gauge(catalogue.FETCH_SESSION_PARTITIONS, lambda: sessions.partitions)


@dataclass(slots=True)
class _Sums:
    """Over all replicas of a broker."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    reassigning: int = 0
    producer_ids: int = 0
    size_bytes: int = 0
    segments: int = 0
    max_lag: int = 0
    failed_fetchers: int = 0
    late: int = 0
    # A transaction whose last record is older is late.
    late_before_ms: int = 0

    def add(self, partition: Partition) -> None:
        self.partitions += 1
        log = partition.log
        self.size_bytes += log.size_bytes
        self.segments += log.segment_count
        self.producer_ids += log.producers.count
        is_offline = log.offline is not None
        self.offline += is_offline
        if partition.is_leader:
            self._add_led(partition)
        else:
            self.max_lag = max(self.max_lag, partition.behind)
            self.failed_fetchers += is_offline

    def _add_led(self, partition: Partition) -> None:
        self.leaders += 1
        in_sync = len(partition.isr)
        self.under_replicated += in_sync < len(partition.replicas)
        self.under_min_isr += in_sync < partition.min_isr
        self.at_min_isr += in_sync == partition.min_isr
        image = partition.image
        self.late += partition.log.has_transaction_idle_since(self.late_before_ms)
        self.reassigning += image is not None and bool(image.adding or image.removing)


def _late_before_ms(broker: Broker) -> int:
    return broker.clock.wall_ms() - broker.config.transaction_max_timeout_ms - LATE_BUFFER_MS


def _replicas(table: PartitionTable, late_before_ms: int) -> Iterator[Reading | None]:
    sums = _Sums(late_before_ms=late_before_ms)
    for partition in list(table.all()):
        sums.add(partition)
        for _ in range(1 + partition.log.segment_count // SEGMENTS_PER_READING):
            yield None
    unopened = len(table.unopened)
    for metric, value in (
        (catalogue.PARTITION_COUNT, sums.partitions + unopened),
        (catalogue.LEADER_COUNT, sums.leaders),
        (catalogue.UNDER_REPLICATED, sums.under_replicated),
        (catalogue.UNDER_MIN_ISR, sums.under_min_isr),
        (catalogue.AT_MIN_ISR, sums.at_min_isr),
        (catalogue.OFFLINE_REPLICAS, sums.offline + unopened),
        (catalogue.REASSIGNING, sums.reassigning),
        (transactions.LATE, sums.late),
        (catalogue.PRODUCER_IDS, sums.producer_ids),
        (catalogue.LOG_SIZE, sums.size_bytes),
        (catalogue.SEGMENTS, sums.segments),
        (catalogue.OFFLINE_DIRECTORIES, int(sums.offline > 0 and sums.offline == sums.partitions)),
    ):
        yield Reading(metric, (), value)
    yield Reading(catalogue.MAX_LAG, (REPLICA_FETCHER,), sums.max_lag)
    yield Reading(catalogue.FAILED_FETCHERS, (REPLICA_FETCHER,), sums.failed_fetchers)
