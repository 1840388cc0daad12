"""Transactions."""

from __future__ import annotations

from odradek.monitor.declaring import gauge, histogram, meter
from odradek.monitor.metric import Alert, Severity

_MS_OF_NS = 1e-6
_COORDINATOR = "kafka.server:type=transaction-coordinator-metrics"
_MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
_VERIFICATION = "kafka.server:type=AddPartitionsToTxnManager,name="
_OWN = "odradek.coordinator.transaction:type=TransactionCoordinator,name="

LATE = gauge(
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
    "partitions",
    "Partitions led here with a transaction that has been idle for 5 minutes more than transaction.max.timeout.ms.",
    Alert(
        name="LateTransactions",
        expression="kafka_server_replicamanager_partitionswithlatetransactionscount > 0",
        for_seconds=60,
        severity=Severity.WARNING,
        summary=(
            "Partitions led by {{ $labels.instance }} with a hanging transaction: {{ $value }}. read_committed "
            "consumers stop before it."
        ),
        action=(
            "`odradek txn find-hanging` shows the topic, partition and first offset of each. Abort it with `odradek "
            "txn abort --at TOPIC:PARTITION:OFFSET`."
        ),
    ),
)
TRANSACTIONS = gauge(
    _OWN + "NumTransactions",
    "transactions",
    "Transactional ids that this broker coordinates, by the state of their last transaction.",
    labels=("state",),
)
COORDINATED_PARTITIONS = gauge(
    _OWN + "NumPartitions",
    "partitions",
    "Partitions of __transaction_state that this broker coordinates, by state: loading, active.",
    labels=("state",),
)
TIMED_OUT = meter(
    _OWN + "TimeoutAbortsPerSec", "transactions", "Transactions that took longer than their timeout and were aborted."
)
LOAD_TIME_MAX = gauge(
    _COORDINATOR,
    "ms",
    "Longest time to load a partition of __transaction_state in the last 30 to 60 seconds.",
    attribute="partition-load-time-max",
)
LOAD_TIME_AVG = gauge(
    _COORDINATOR,
    "ms",
    "Average time to load a partition of __transaction_state in the last 30 to 60 seconds.",
    attribute="partition-load-time-avg",
)
UNKNOWN_DESTINATION = gauge(
    _MARKERS + "UnknownDestinationQueueSize",
    "markers",
    "Markers that wait for a retry: the leader of their partition is unknown, did not answer, or refused them.",
    Alert(
        name="TransactionMarkersStuck",
        expression="kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize > 0",
        for_seconds=300,
        severity=Severity.WARNING,
        summary=(
            "Transaction markers of {{ $labels.instance }} cannot be written. Transactions that do not end: "
            "{{ $value }}."
        ),
        action=(
            "Their partitions have no leader: see OfflinePartitions. `odradek txn ls` shows the transactions in "
            "PrepareCommit or PrepareAbort. The markers are written by themselves when the partitions have leaders "
            "again."
        ),
    ),
)
LOG_APPEND_RETRY = gauge(
    _MARKERS + "LogAppendRetryQueueSize",
    "transactions",
    "Transactions with all their markers that could not be stored as complete yet.",
)
UNCONFIRMED = gauge(
    "odradek.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnconfirmedTransactions",
    "transactions",
    "Decided transactions that still lack a marker in some partition.",
)
VERIFICATION_FAILURES = meter(
    _VERIFICATION + "VerificationFailureRate",
    "batches",
    "Partitions with a batch of a transaction that its coordinator did not confirm.",
)
VERIFICATION_TIME = histogram(
    _VERIFICATION + "VerificationTimeMs",
    "ms",
    "Time that the first batch of a transaction waits for the confirmation of its coordinator.",
    scale=_MS_OF_NS,
)
