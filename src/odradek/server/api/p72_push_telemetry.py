"""PushTelemetry 0 (KIP-714): metrics of a client, as OpenTelemetry's MetricsData.

As in Kafka, no permission is needed.
"""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.messages.p72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.server.network.request import Api, BrokerContext
from odradek.telemetry.instances import Push


async def handle(ctx: BrokerContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    push = Push(request.subscription_id, request.terminating, request.compression_type, request.metrics)
    await ctx.broker.telemetry.push(ctx, request.client_instance_id, push)
    return PushTelemetryResponse()


def refuse(_ctx: BrokerContext, _request: PushTelemetryRequest, refused: KafkaError) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=refused.code)


API = Api(key=72, versions=(0, 0), request=PushTelemetryRequest, handle=handle, refuse=refuse)
