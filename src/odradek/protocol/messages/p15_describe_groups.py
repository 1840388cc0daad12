"""API 15, DescribeGroups, versions 0-6. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, binary, boolean, int16, int32, string


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string, "0+", factory=list)
    include_authorized_operations: bool = boolean("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    member_metadata: bytes = binary("0+", default=b"")
    member_assignment: bytes = binary("0+", default=b"")


class DescribedGroup(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+", default="")
    group_state: str = string("0+", default="")
    protocol_type: str = string("0+", default="")
    protocol_data: str = string("0+", default="")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+", factory=list)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", factory=list)
