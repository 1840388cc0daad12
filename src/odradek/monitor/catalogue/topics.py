"""Traffic by topic.

A series without the label `topic` is the sum over all topics, including deleted ones.
"""

from __future__ import annotations

from odradek.monitor.declaring import meter
from odradek.monitor.metric import Alert, Metric, Severity


def _meter(name: str, unit: str, meaning: str, *alerts: Alert, by_topic: bool = True) -> Metric:
    labels = ("topic",) if by_topic else ()
    return meter(f"kafka.server:type=BrokerTopicMetrics,name={name}", unit, meaning, *alerts, labels=labels)


MESSAGES_IN = _meter("MessagesInPerSec", "messages", "Records appended by clients and coordinators.")
BYTES_IN = _meter("BytesInPerSec", "bytes", "Bytes of record batches appended by clients and coordinators.")
BYTES_OUT = _meter("BytesOutPerSec", "bytes", "Bytes of record batches sent to consumers, not to followers.")
BYTES_REJECTED = _meter("BytesRejectedPerSec", "bytes", "Bytes of batches refused because they are too large.")
PRODUCE_REQUESTS = _meter("TotalProduceRequestsPerSec", "requests", "Appends, one for each partition of a request.")
FETCH_REQUESTS = _meter("TotalFetchRequestsPerSec", "requests", "Reads, one for each partition of a fetch.")
FAILED_PRODUCE = _meter(
    "FailedProduceRequestsPerSec",
    "requests",
    "Appends that failed for a reason that is neither an outdated client nor a refused batch.",
    Alert(
        name="ProduceRequestsFail",
        expression='rate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic=""}[5m]) > 0',
        for_seconds=300,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} refuses appends of producers.",
        action=(
            "kafka_network_requestmetrics_errors_total with request Produce shows the codes. NOT_ENOUGH_REPLICAS: too "
            "few replicas are in sync, see UnderMinIsrPartitions. Codes about the sequence or epoch of producers: two "
            "producers share a transactional id, or a producer was too long without a connection."
        ),
    ),
)
FAILED_FETCH = _meter(
    "FailedFetchRequestsPerSec", "requests", "Reads that failed for another reason than an outdated client."
)
INVALID_CHECKSUMS = _meter(
    "InvalidMessageCrcRecordsPerSec", "requests", "Batches refused for a wrong checksum or length.", by_topic=False
)
INVALID_MAGIC = _meter(
    "InvalidMagicNumberRecordsPerSec", "requests", "Batches refused for an old format.", by_topic=False
)
INVALID_OFFSETS = _meter(
    "InvalidOffsetOrSequenceRecordsPerSec",
    "requests",
    "Batches refused for wrong offsets, counts or sequence numbers.",
    by_topic=False,
)
KEYLESS = _meter(
    "NoKeyCompactedTopicRecordsPerSec", "requests", "Records without a key for compacted topics.", by_topic=False
)
REPLICATION_BYTES_IN = _meter(
    "ReplicationBytesInPerSec", "bytes", "Bytes fetched from leaders and appended.", by_topic=False
)
REPLICATION_BYTES_OUT = _meter("ReplicationBytesOutPerSec", "bytes", "Bytes sent to followers.", by_topic=False)
REASSIGNMENT_BYTES_IN = _meter(
    "ReassignmentBytesInPerSec",
    "bytes",
    "Bytes fetched for replicas that are being added here.",
    by_topic=False,
)
REASSIGNMENT_BYTES_OUT = _meter(
    "ReassignmentBytesOutPerSec", "bytes", "Bytes sent to followers that are being added.", by_topic=False
)

BY_TOPIC = (
    MESSAGES_IN,
    BYTES_IN,
    BYTES_OUT,
    BYTES_REJECTED,
    PRODUCE_REQUESTS,
    FETCH_REQUESTS,
    FAILED_PRODUCE,
    FAILED_FETCH,
)
