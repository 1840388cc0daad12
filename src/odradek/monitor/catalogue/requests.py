"""Requests."""

from __future__ import annotations

from odradek.monitor.declaring import histogram, meter
from odradek.monitor.metric import Alert, Metric, Severity

_MBEAN = "kafka.network:type=RequestMetrics,name="
_MS_OF_NS = 1e-6


def _time(name: str, meaning: str, *alerts: Alert) -> Metric:
    return histogram(_MBEAN + name, "ms", meaning, *alerts, labels=("request",), scale=_MS_OF_NS, lazy=True)


REQUESTS = meter(
    _MBEAN + "RequestsPerSec",
    "requests",
    "Requests by API and version, exact. Fetch is also counted as FetchConsumer or FetchFollower.",
    labels=("request", "version"),
    lazy=True,
)
ERRORS = meter(
    _MBEAN + "ErrorsPerSec",
    "requests",
    "Errors by API and error code, exact. NONE counts answered requests without any error. A request that cannot be "
    "read counts as INVALID_REQUEST, one that fails as UNKNOWN_SERVER_ERROR: both only close their connection.",
    Alert(
        name="StorageErrors",
        expression='increase(kafka_network_requestmetrics_errors_total{error="KAFKA_STORAGE_ERROR"}[5m]) > 0',
        for_seconds=0,
        severity=Severity.CRITICAL,
        summary=(
            "{{ $labels.instance }} answered {{ $labels.request }} with KAFKA_STORAGE_ERROR: its disk is full or "
            "broken."
        ),
        action=(
            "Read its log for the first I/O error, and free space or repair the disk. The broker opens its logs again "
            "when the disk works. Until then partitions with another in-sync replica are served by other brokers."
        ),
    ),
    labels=("request", "error"),
    lazy=True,
)
TOTAL_TIME = _time(
    "TotalTimeMs",
    "Time from the last byte of the request to the handover of the reply to the socket. Up to about 50 requests "
    "of an API per second are all measured, of more a sample.",
    Alert(
        name="ProduceSlow",
        # Percentiles keep their value while there are no requests.
        expression=(
            'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} > 1000 '
            'and ignoring (quantile) rate(kafka_network_requestmetrics_totaltimems_count{request="Produce"}[3m]) > 0'
        ),
        for_seconds=300,
        severity=Severity.WARNING,
        summary="One of 100 produce requests takes longer than 1 s on {{ $labels.instance }}.",
        action=(
            "Find the slow part in the other times of Produce. Queue and local time: the broker is overloaded, see "
            "BrokerOverloaded. Remote time: slow followers or fsyncs, see UnderReplicatedPartitions and FlushSlow. "
            "Send time: the network or the client."
        ),
    ),
)
QUEUE_TIME = _time("RequestQueueTimeMs", "Part of the total: behind earlier requests of the same connection.")
LOCAL_TIME = _time("LocalTimeMs", "Part of the total: in the handler.")
REMOTE_TIME = _time(
    "RemoteTimeMs",
    "Part of the total: waiting for other nodes, a disk, or more records. Long polls make it long for Fetch.",
)
THROTTLE_TIME = _time("ThrottleTimeMs", "How long a quota delayed the reply; always 0, as there are no quotas.")
RESPONSE_QUEUE_TIME = _time(
    "ResponseQueueTimeMs", "Part of the total: the reply waited for replies to earlier requests."
)
SEND_TIME = _time("ResponseSendTimeMs", "Part of the total: handing the reply to the socket.")
REQUEST_BYTES = histogram(
    _MBEAN + "RequestBytes", "bytes", "Size of requests, sampled like the times.", labels=("request",), lazy=True
)
RESPONSE_BYTES = histogram(
    "odradek.network:type=RequestMetrics,name=ResponseBytes",
    "bytes",
    "Size of replies, sampled like the times.",
    labels=("request",),
    lazy=True,
)
