"""API 32, DescribeConfigs, versions 1-4. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configuration_keys: list[str] | None = array(string, "0+", nullable="0+", factory=list)


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+", factory=list)
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: str = string("1+", default="")
    value: str | None = string("1+", nullable="0+", default="")
    source: int = int8("1+", default=0)


class DescribeConfigsResourceResult(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")
    read_only: bool = boolean("0+", default=False)
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean("0+", default=False)
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", factory=list)
    config_type: int = int8("3+", default=0)
    documentation: str | None = string("3+", nullable="0+", default="")


class DescribeConfigsResult(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+", factory=list)


class DescribeConfigsResponse(Message, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+", factory=list)
