"""GetTelemetrySubscriptions 0 (KIP-714): which metrics this client should push, how often, and to what limit.

A client without an instance id gets one. As in Kafka, no permission is needed. Unlike Kafka, the broker asks for
cumulative counters: a lost push then loses nothing, and counters mean the same as all others in Prometheus.
"""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.compression import Codec
from odradek.protocol.messages.p71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.server.network.request import Api, BrokerContext

ACCEPTED = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)  # best first


def handle(ctx: BrokerContext, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    instance = ctx.broker.telemetry.get(ctx, request.client_instance_id)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=ctx.broker.telemetry.bytes_max,
        delta_temporality=False,
        requested_metrics=list(instance.wanted.metrics),
    )


def refuse(
    _ctx: BrokerContext, _request: GetTelemetrySubscriptionsRequest, refused: KafkaError
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(error_code=refused.code)


API = Api(key=71, versions=(0, 0), request=GetTelemetrySubscriptionsRequest, handle=handle, refuse=refuse)
