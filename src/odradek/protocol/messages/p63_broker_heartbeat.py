"""API 63, BrokerHeartbeat, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Message, key=63, versions="0-2", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+", default=0)
    want_fence: bool = boolean("0+", default=False)
    want_shut_down: bool = boolean("0+", default=False)
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0, factory=list)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", nullable="2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message, key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    is_caught_up: bool = boolean("0+", default=False)
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+", default=False)
