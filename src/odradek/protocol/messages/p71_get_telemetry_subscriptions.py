"""API 71, GetTelemetrySubscriptions, version 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid("0+", default=ZERO_UUID)


class GetTelemetrySubscriptionsResponse(Message, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    client_instance_id: bytes = uuid("0+", default=ZERO_UUID)
    subscription_id: int = int32("0+", default=0)
    accepted_compression_types: list[int] = array(int8, "0+", factory=list)
    push_interval_ms: int = int32("0+", default=0)
    telemetry_max_bytes: int = int32("0+", default=0)
    delta_temporality: bool = boolean("0+", default=False)
    requested_metrics: list[str] = array(string, "0+", factory=list)
