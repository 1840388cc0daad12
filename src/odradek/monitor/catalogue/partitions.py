"""Partitions, if metrics.partitions.enable is true.

Metrics of Log exist for every replica on a broker, those of Partition for the partitions that it leads.
"""

from __future__ import annotations

from odradek.monitor.declaring import gauge
from odradek.monitor.metric import Metric

_PARTITION = ("topic", "partition")


def _log(name: str, unit: str, meaning: str) -> Metric:
    return gauge(f"kafka.log:type=Log,name={name}", unit, meaning, labels=_PARTITION)


def _led(name: str, unit: str, meaning: str) -> Metric:
    return gauge(f"kafka.cluster:type=Partition,name={name}", unit, meaning, labels=_PARTITION)


SIZE = _log("Size", "bytes", "Size of the log, without indexes.")
LOG_START_OFFSET = _log("LogStartOffset", "offset", "The first offset of the log.")
LOG_END_OFFSET = _log("LogEndOffset", "offset", "The offset of the next record.")
SEGMENTS = _log("NumLogSegments", "segments", "Segments of the log.")
RETENTION_PERCENT = _log(
    "RetentionSizeInPercent", "percent", "Size of the log in percent of retention.bytes; 0 if that is not limited."
)
REPLICAS = _led("ReplicasCount", "replicas", "Replicas of the partition.")
IN_SYNC_REPLICAS = _led("InSyncReplicasCount", "replicas", "Replicas in the ISR.")
UNDER_REPLICATED = _led("UnderReplicated", "partitions", "1 while a replica is not in sync.")
UNDER_MIN_ISR = _led("UnderMinIsr", "partitions", "1 while the ISR is smaller than min.insync.replicas.")
AT_MIN_ISR = _led("AtMinIsr", "partitions", "1 while the ISR has just min.insync.replicas.")
LAST_STABLE_OFFSET_LAG = _led(
    "LastStableOffsetLag", "messages", "Committed records from the first open transaction on: read_committed waits."
)
FOLLOWER_LAG = gauge(
    "kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
    "messages",
    "Of a follower: how far it is behind its leader's last known high watermark.",
    labels=("clientId", *_PARTITION),
)
