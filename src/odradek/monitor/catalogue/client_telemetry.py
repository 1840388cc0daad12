"""Client telemetry.

What clients push (KIP-714) has the names that OpenTelemetry gives it, such as
`org_apache_kafka_producer_record_send_rate`. These are the broker's own figures about it.
"""

from __future__ import annotations

from odradek.monitor.metric import Alert, Kind, Metric, Severity

INSTANCES = Metric(
    name="kafka_server_client_metrics_instance_count",
    mbean="kafka.server:type=client-metrics",
    attribute="instance-count",
    kind=Kind.GAUGE,
    unit="clients",
    help="Client instances that the broker knows.",
)
SERIES = Metric(
    name="odradek_telemetry_clienttelemetry_series",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Series",
    kind=Kind.GAUGE,
    unit="series",
    help="Series that clients have pushed to this broker and that it exports.",
)
PUSHES = Metric(
    name="odradek_telemetry_clienttelemetry_pushes_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Pushes",
    kind=Kind.COUNTER,
    unit="requests",
    help="Pushes that were accepted and had metrics.",
)
THROTTLED = Metric(
    name="odradek_telemetry_clienttelemetry_throttled_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Throttled",
    kind=Kind.COUNTER,
    unit="requests",
    help="Telemetry requests refused because they came before the interval of the subscription, or all at once.",
)
UNKNOWN_SUBSCRIPTION = Metric(
    name="odradek_telemetry_clienttelemetry_unknownsubscription_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=UnknownSubscription",
    kind=Kind.COUNTER,
    unit="requests",
    help="Pushes refused because the subscription has changed. The client asks for the new one.",
)
EVICTED = Metric(
    name="odradek_telemetry_clienttelemetry_evicted_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Evicted",
    kind=Kind.COUNTER,
    unit="clients",
    help="Client instances forgotten because the broker has its maximum of 4,096.",
)
REFUSED = Metric(
    name="odradek_telemetry_clienttelemetry_refused_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Refused",
    kind=Kind.COUNTER,
    unit="points",
    help="Pushed values left out because they were not subscribed to, or because of their name, labels or value.",
)
DROPPED = Metric(
    name="odradek_telemetry_clienttelemetry_dropped_total",
    mbean="odradek.telemetry:type=ClientTelemetry,name=Dropped",
    kind=Kind.COUNTER,
    unit="points",
    help="Pushed values left out because a client has its maximum of 1,000 series, or all clients theirs of 20,000.",
    alerts=(
        Alert(
            name="ClientTelemetryDropped",
            expression="increase(odradek_telemetry_clienttelemetry_dropped_total[10m]) > 0",
            for_seconds=600,
            severity=Severity.WARNING,
            summary=(
                "{{ $labels.instance }} drops metrics that clients push: a client has more than 1,000 series, or all "
                "clients have more than 20,000."
            ),
            action=(
                "`odradek config ls client-metrics` lists the subscriptions. Subscribe to fewer metrics or clients "
                "with `odradek config set client-metrics NAME metrics=PREFIX match=client_id=REGEX`."
            ),
        ),
    ),
)
