"""API 16, ListGroups, versions 0-5. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+", factory=list)
    types_filter: list[str] = array(string, "5+", factory=list)


class ListedGroup(Struct):
    group_id: str = string("0+", default="")
    protocol_type: str = string("0+", default="")
    group_state: str = string("4+", default="")
    group_type: str = string("5+", default="")


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("0+", default=0)
    groups: list[ListedGroup] = array(ListedGroup, "0+", factory=list)
