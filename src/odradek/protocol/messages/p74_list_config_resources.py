"""API 74, ListConfigResources, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+", factory=list)


class ConfigResource(Struct):
    resource_name: str = string("0+", default="")
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    config_resources: list[ConfigResource] = array(ConfigResource, "0+", factory=list)
