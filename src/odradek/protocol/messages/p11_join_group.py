"""API 11, JoinGroup, versions 0-9. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, binary, boolean, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = string("0+", default="")
    metadata: bytes = binary("0+", default=b"")


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    group_id: str = string("0+", default="")
    session_timeout_ms: int = int32("0+", default=0)
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+", default="")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+", factory=list)
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = binary("0+", default=b"")


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0)
    error_code: int = int16("0+", default=0)
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string("0+", nullable="7+", default="")
    leader: str = string("0+", default="")
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string("0+", default="")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+", factory=list)
