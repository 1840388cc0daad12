"""API 62, BrokerRegistration, versions 0-4. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class Feature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class BrokerRegistrationRequest(Message, key=62, versions="0-4", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    cluster_id: str = string("0+", default="")
    incarnation_id: bytes = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", factory=list)
    features: list[Feature] = array(Feature, "0+", factory=list)
    rack: str | None = string("0+", nullable="0+", default="")
    is_migrating_zk_broker: bool = boolean("1+", default=False)
    log_dirs: list[bytes] = array(uuid, "2+", factory=list)
    previous_broker_epoch: int = int64("3+", default=-1)


class BrokerRegistrationResponse(Message, key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
