"""API 72, PushTelemetry, version 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, binary, boolean, int8, int16, int32, uuid


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid("0+", default=ZERO_UUID)
    subscription_id: int = int32("0+", default=0)
    terminating: bool = boolean("0+", default=False)
    compression_type: int = int8("0+", default=0)
    metrics: bytes = binary("0+", default=b"")


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
