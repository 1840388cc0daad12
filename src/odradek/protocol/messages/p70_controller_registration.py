"""API 70, ControllerRegistration, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class Feature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class ControllerRegistrationRequest(Message, key=70, versions="0", flexible="0+"):
    controller_id: int = int32("0+", default=0)
    incarnation_id: bytes = uuid("0+", default=ZERO_UUID)
    zk_migration_ready: bool = boolean("0+", default=False)
    listeners: list[Listener] = array(Listener, "0+", factory=list)
    features: list[Feature] = array(Feature, "0+", factory=list)


class ControllerRegistrationResponse(Message, key=70, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
