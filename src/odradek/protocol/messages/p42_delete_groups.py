"""API 42, DeleteGroups, versions 0-3. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = array(string, "0+", factory=list)


class DeletableGroupResult(Struct):
    group_id: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("3+", nullable="3+", default=None)


class DeleteGroupsResponse(Message, key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+", factory=list)
