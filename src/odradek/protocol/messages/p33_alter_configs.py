"""API 33, AlterConfigs, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+", factory=list)


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+", factory=list)
    validate_only: bool = boolean("0+", default=False)


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+", factory=list)
