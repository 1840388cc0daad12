"""Clients: producers and consumers of `odradek.client`.

Under the names of Java's clients. librdkafka measures them: an average or maximum covers the last report
(`statistics.interval.ms`), a rate the last 30 to 60 seconds.
"""

from __future__ import annotations

from odradek.monitor.metric import Alert, Kind, Metric, Severity

CLIENT = ("client_id",)
TOPIC = ("client_id", "topic")
PARTITION = ("client_id", "topic", "partition")
NODE = ("client_id", "node_id")

PRODUCER, CONSUMER = "kafka.producer:type=producer-metrics", "kafka.consumer:type=consumer-metrics"
PRODUCER_TOPIC = "kafka.producer:type=producer-topic-metrics"
PRODUCER_NODE = "kafka.producer:type=producer-node-metrics"
CONSUMER_NODE = "kafka.consumer:type=consumer-node-metrics"
FETCHES = "kafka.consumer:type=consumer-fetch-manager-metrics"
COORDINATION = "kafka.consumer:type=consumer-coordinator-metrics"


def _declared(
    mbean: str, attribute: str, unit: str, text: str, labels: tuple[str, ...], alerts: tuple[Alert, ...]
) -> Metric:
    domain, _, kind = mbean.partition(":type=")
    return Metric(
        name=f"{domain}_{kind}_{attribute}".replace(".", "_").replace("-", "_"),
        mbean=mbean,
        attribute=attribute,
        kind=Kind.COUNTER if attribute.endswith("-total") else Kind.GAUGE,
        unit=unit,
        help=text,
        labels=labels,
        keys=tuple(label.replace("_", "-") for label in labels),
        alerts=alerts,
    )


def _metric(
    mbean: str, attribute: str, unit: str, text: str, labels: tuple[str, ...] = CLIENT, alert: Alert | None = None
) -> Metric:
    return _declared(mbean, attribute, unit, text, labels, (alert,) if alert else ())


# Producers

RECORDS_SENT = _metric(PRODUCER, "record-send-total", "records", "Records sent.")
RECORD_SEND_RATE = _metric(PRODUCER, "record-send-rate", "records/second", "Records sent per second.")
RECORD_ERRORS = _metric(
    PRODUCER,
    "record-error-total",
    "records",
    "Records that were not delivered.",
    alert=Alert(
        name="RecordsNotDelivered",
        expression="increase(kafka_producer_producer_metrics_record_error_total[5m]) > 0",
        for_seconds=0,
        severity=Severity.CRITICAL,
        summary=(
            "The producer {{ $labels.client_id }} of {{ $labels.instance }} gave up records that it could not deliver."
        ),
        action=(
            "The exception of each send has the reason; the program must have handled or logged it. If the cluster is "
            "whole (`odradek cluster health`), look at the network, message.timeout.ms and the size of the records."
        ),
    ),
)
RECORD_ERROR_RATE = _metric(PRODUCER, "record-error-rate", "records/second", "Records that failed per second.")
REQUEST_LATENCY_AVG = _metric(PRODUCER, "request-latency-avg", "ms", "Time until the broker answered a request.")
REQUEST_LATENCY_MAX = _metric(PRODUCER, "request-latency-max", "ms", "Longest time until the broker answered.")
BATCH_SIZE_AVG = _metric(PRODUCER, "batch-size-avg", "bytes", "Size of the batches of a partition.")
BATCH_SIZE_MAX = _metric(PRODUCER, "batch-size-max", "bytes", "Size of the largest batch.")
QUEUE_TIME_AVG = _metric(PRODUCER, "record-queue-time-avg", "ms", "Time that records waited to be sent.")
QUEUE_TIME_MAX = _metric(PRODUCER, "record-queue-time-max", "ms", "Longest time that a record waited to be sent.")
THROTTLE_AVG = _metric(PRODUCER, "produce-throttle-time-avg", "ms", "Time that the broker delayed the producer.")
THROTTLE_MAX = _metric(PRODUCER, "produce-throttle-time-max", "ms", "Longest delay by the broker.")
IN_FLIGHT = _metric(PRODUCER, "requests-in-flight", "requests", "Requests that the broker has not answered yet.")
BUFFER_TOTAL = _metric(PRODUCER, "buffer-total-bytes", "bytes", "Most bytes of records that may wait.")
BUFFER_AVAILABLE = _metric(PRODUCER, "buffer-available-bytes", "bytes", "Free bytes of this buffer.")
METADATA_AGE = _metric(PRODUCER, "metadata-age", "seconds", "Age of the oldest metadata of a topic in use.")

TOPIC_RECORDS_SENT = _metric(PRODUCER_TOPIC, "record-send-total", "records", "Records sent to a topic.", TOPIC)
TOPIC_SEND_RATE = _metric(PRODUCER_TOPIC, "record-send-rate", "records/second", "Records sent per second.", TOPIC)
TOPIC_BYTES_SENT = _metric(PRODUCER_TOPIC, "byte-total", "bytes", "Bytes of records sent to a topic.", TOPIC)
TOPIC_BYTE_RATE = _metric(PRODUCER_TOPIC, "byte-rate", "bytes/second", "Bytes of records sent per second.", TOPIC)
TOPIC_ERRORS = _metric(PRODUCER_TOPIC, "record-error-total", "records", "Records that failed, by topic.", TOPIC)

PRODUCER_NODE_REQUESTS = _metric(PRODUCER_NODE, "request-total", "requests", "Requests sent to a broker.", NODE)
PRODUCER_NODE_LATENCY_AVG = _metric(PRODUCER_NODE, "request-latency-avg", "ms", "Time until it answered.", NODE)
PRODUCER_NODE_LATENCY_MAX = _metric(PRODUCER_NODE, "request-latency-max", "ms", "Longest time until it did.", NODE)

PRODUCER_CONNECTIONS = _metric(PRODUCER, "connection-count", "connections", "Open connections.")
PRODUCER_CONNECTS = _metric(PRODUCER, "connection-creation-total", "connections", "Connections made.")
PRODUCER_DISCONNECTS = _metric(PRODUCER, "connection-close-total", "connections", "Connections that ended.")
PRODUCER_BYTES_IN = _metric(PRODUCER, "incoming-byte-total", "bytes", "Bytes received.")
PRODUCER_BYTES_IN_RATE = _metric(PRODUCER, "incoming-byte-rate", "bytes/second", "Bytes received per second.")
PRODUCER_BYTES_OUT = _metric(PRODUCER, "outgoing-byte-total", "bytes", "Bytes sent.")
PRODUCER_BYTES_OUT_RATE = _metric(PRODUCER, "outgoing-byte-rate", "bytes/second", "Bytes sent per second.")
PRODUCER_REQUESTS = _metric(PRODUCER, "request-total", "requests", "Requests sent.")
PRODUCER_REQUEST_RATE = _metric(PRODUCER, "request-rate", "requests/second", "Requests sent per second.")
PRODUCER_RESPONSES = _metric(PRODUCER, "response-total", "responses", "Responses received.")
PRODUCER_RESPONSE_RATE = _metric(PRODUCER, "response-rate", "responses/second", "Responses received per second.")

# Consumers

RECORDS_CONSUMED = _metric(
    FETCHES, "records-consumed-total", "records", "Records taken from librdkafka's queue, all and by topic.", TOPIC
)
RECORDS_CONSUMED_RATE = _metric(FETCHES, "records-consumed-rate", "records/second", "The same per second.", TOPIC)
BYTES_CONSUMED = _metric(FETCHES, "bytes-consumed-total", "bytes", "Bytes of these records.", TOPIC)
BYTES_CONSUMED_RATE = _metric(FETCHES, "bytes-consumed-rate", "bytes/second", "The same per second.", TOPIC)
LAG_MAX = _metric(FETCHES, "records-lag-max", "records", "The largest lag of an assigned partition.")
LAG = _metric(FETCHES, "records-lag", "records", "Records after the position in a partition.", PARTITION)
LEAD = _metric(FETCHES, "records-lead", "records", "Records of a partition before the position.", PARTITION)
FETCH_TOTAL = _metric(FETCHES, "fetch-total", "requests", "Fetch requests.")
FETCH_RATE = _metric(FETCHES, "fetch-rate", "requests/second", "Fetch requests per second.")
FETCH_LATENCY_AVG = _metric(
    FETCHES, "fetch-latency-avg", "ms", "Time until a broker answered, mostly the wait of a fetch for new records."
)
FETCH_LATENCY_MAX = _metric(FETCHES, "fetch-latency-max", "ms", "Longest time until a broker answered.")
FETCH_THROTTLE_AVG = _metric(FETCHES, "fetch-throttle-time-avg", "ms", "Time that the broker delayed the consumer.")
FETCH_THROTTLE_MAX = _metric(FETCHES, "fetch-throttle-time-max", "ms", "Longest delay by the broker.")

ASSIGNED = _metric(COORDINATION, "assigned-partitions", "partitions", "Partitions assigned to this consumer.")
REBALANCES = _metric(COORDINATION, "rebalance-total", "rebalances", "Rebalances that this consumer took part in.")

CONSUMER_NODE_REQUESTS = _metric(CONSUMER_NODE, "request-total", "requests", "Requests sent to a broker.", NODE)
CONSUMER_NODE_LATENCY_AVG = _metric(CONSUMER_NODE, "request-latency-avg", "ms", "Time until it answered.", NODE)
CONSUMER_NODE_LATENCY_MAX = _metric(CONSUMER_NODE, "request-latency-max", "ms", "Longest time until it did.", NODE)

CONSUMER_CONNECTIONS = _metric(CONSUMER, "connection-count", "connections", "Open connections.")
CONSUMER_CONNECTS = _metric(CONSUMER, "connection-creation-total", "connections", "Connections made.")
CONSUMER_DISCONNECTS = _metric(CONSUMER, "connection-close-total", "connections", "Connections that ended.")
CONSUMER_BYTES_IN = _metric(CONSUMER, "incoming-byte-total", "bytes", "Bytes received.")
CONSUMER_BYTES_IN_RATE = _metric(CONSUMER, "incoming-byte-rate", "bytes/second", "Bytes received per second.")
CONSUMER_BYTES_OUT = _metric(CONSUMER, "outgoing-byte-total", "bytes", "Bytes sent.")
CONSUMER_BYTES_OUT_RATE = _metric(CONSUMER, "outgoing-byte-rate", "bytes/second", "Bytes sent per second.")
CONSUMER_REQUESTS = _metric(CONSUMER, "request-total", "requests", "Requests sent.")
CONSUMER_REQUEST_RATE = _metric(CONSUMER, "request-rate", "requests/second", "Requests sent per second.")
CONSUMER_RESPONSES = _metric(CONSUMER, "response-total", "responses", "Responses received.")
CONSUMER_RESPONSE_RATE = _metric(CONSUMER, "response-rate", "responses/second", "Responses received per second.")
