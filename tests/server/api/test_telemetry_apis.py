"""GetTelemetrySubscriptions and PushTelemetry: what a client of this version sees."""

from __future__ import annotations

import pytest

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.monitor.registry import Registry
from odradek.protocol.compression import Codec, compress
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.p71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.protocol.messages.p72_push_telemetry import PushTelemetryRequest
from odradek.protocol.metadata_records import ConfigRecord
from odradek.server.api import p18_api_versions
from odradek.server.network.request import BrokerContext
from support.admin_broker import AdminBroker, OneConnection
from support.pushed_metrics import counter, gauge, payload, point

CLIENT_METRICS = 16
NAME = "org.apache.kafka.producer.record.send.rate"


def broker(**settings) -> AdminBroker:
    admin = AdminBroker(settings=settings)
    subscribe(admin, metrics="*", **{"interval.ms": "1000"})
    return admin


def subscribe(admin, **values) -> None:
    admin.commit(
        [
            ConfigRecord(resource_type=CLIENT_METRICS, resource_name="s", name=name, value=value)
            for name, value in values.items()
        ]
    )


def get(admin, instance_id=ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    return admin.ask(71, GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def push(admin, subscription, metrics, codec=0, **more) -> int:
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        compression_type=codec,
        metrics=metrics,
        **more,
    )
    return admin.ask(72, request, 0).error_code


def exported(admin) -> dict[str, object]:
    registry = Registry(lambda: 0)
    admin.broker.telemetry.measure(registry)
    return {reading.metric.name: reading.value for reading in registry.snapshot()}


def test_a_client_gets_its_subscription():
    answer = get(broker(**{"telemetry.max.bytes": "5000"}))
    assert answer.error_code == 0
    assert len(answer.client_instance_id) == 16
    assert answer.client_instance_id != ZERO_UUID
    assert (answer.requested_metrics, answer.push_interval_ms, answer.telemetry_max_bytes) == (["*"], 1000, 5000)
    assert answer.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    assert not answer.delta_temporality


def test_without_a_subscription_nothing_is_requested():
    answer = get(AdminBroker())
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (0, [], 300_000)


def test_subscriptions_that_exist_when_the_broker_starts_count():
    first = broker()
    again = AdminBroker()
    again.broker.image = first.broker.image
    again.broker.__post_init__()
    assert get(again).requested_metrics == ["*"]


def test_a_refused_request_has_only_an_error():
    admin = broker()
    first = get(admin)
    assert get(admin, first.client_instance_id) == GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_pushed_metrics_are_exported(codec):
    admin = broker()
    subscription = get(admin)
    data = payload(gauge(NAME, point(2.5)), counter("org.apache.kafka.producer.x", point(7)), gauge("other", point(1)))
    assert push(admin, subscription, compress(codec, data), codec) == 0
    seen = exported(admin)
    assert (seen["org_apache_kafka_producer_record_send_rate"], seen["org_apache_kafka_producer_x_total"]) == (2.5, 7)
    assert seen["kafka_server_client_metrics_instance_count"] == 1
    assert seen["odradek_telemetry_clienttelemetry_pushes_total"] == 1
    assert seen["odradek_telemetry_clienttelemetry_series"] == 2
    assert seen["odradek_telemetry_clienttelemetry_refused_total"] == 1


@pytest.mark.parametrize(
    ("metrics", "codec", "code"),
    [
        (bytes(1_048_577), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(Codec.ZSTD, bytes(limits.telemetry_decompressed_bytes_max + 1)), 4, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"\xff\xff\xff", 0, ErrorCode.INVALID_RECORD),
        (b"not zstd", 4, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_a_push_that_cannot_be_read_is_refused(metrics, codec, code):
    admin = broker()
    assert push(admin, get(admin), metrics, codec) == code
    assert exported(admin)["odradek_telemetry_clienttelemetry_series"] == 0


def test_a_push_without_metrics_is_accepted():
    admin = broker()
    assert push(admin, get(admin), b"") == 0


def test_a_changed_subscription_is_noticed():
    admin = broker()
    subscription = get(admin)
    subscribe(admin, metrics="a.")
    assert push(admin, subscription, b"") == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert get(admin, subscription.client_instance_id).requested_metrics == ["a."]


def test_software_named_in_api_versions_is_matched():
    admin = broker()
    subscribe(admin, match="client_software_name=special,client_software_version=1\\..*")
    connection = OneConnection()
    ctx = BrokerContext(admin.broker, connection, 3, 1, "app")
    assert admin.broker.telemetry.get(ctx, ZERO_UUID).wanted.metrics == ()
    p18_api_versions.handle(ctx, ApiVersionsRequest(client_software_name="special", client_software_version="1.2"))
    other = BrokerContext(admin.broker, connection, 0, 2, "app")
    assert admin.broker.telemetry.get(other, ZERO_UUID).wanted.metrics == ("*",)


@pytest.mark.parametrize(
    ("name", "version", "before", "after"),
    [
        ("apache-kafka-java", "4.3.1", True, True),
        ("librdkafka", "2.16.1", False, True),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", False, True),
    ],
)
def test_clients_of_librdkafka_are_offered_telemetry_only_if_there_is_a_subscription(name, version, before, after):
    """It prints a line to stderr as soon as it is offered. Java's clients look only once, so they see it always."""
    admin = AdminBroker()
    hello = ApiVersionsRequest(client_software_name=name, client_software_version=version)

    def is_offered() -> bool:
        keys = {row.api_key for row in admin.ask(18, hello, 3).api_keys}
        assert (71 in keys) == (72 in keys)
        return 71 in keys

    assert is_offered() is before
    subscribe(admin, metrics="*")
    assert is_offered() is after


def test_a_long_software_name_is_cut():
    connection = OneConnection()
    ctx = BrokerContext(AdminBroker().broker, connection, 3, 1, "app")
    p18_api_versions.handle(
        ctx, ApiVersionsRequest(client_software_name="x" * 1000, client_software_version="1" * 1000)
    )
    assert {len(connection.software.name), len(connection.software.version)} == {limits.client_software_chars_max}
