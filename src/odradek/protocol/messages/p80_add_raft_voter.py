"""API 80, AddRaftVoter, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class AddRaftVoterRequest(Message, key=80, versions="0-1", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+", default="")
    timeout_ms: int = int32("0+", default=0)
    voter_id: int = int32("0+", default=0)
    voter_directory_id: bytes = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", factory=list)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Message, key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
