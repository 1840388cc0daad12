"""API 19, CreateTopics, versions 2-7. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+", default=0)
    broker_ids: list[int] = array(int32, "0+", factory=list)


class CreatableTopicConfig(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")


class CreatableTopic(Struct):
    name: str = string("0+", default="")
    num_partitions: int = int32("0+", default=0)
    replication_factor: int = int16("0+", default=0)
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+", factory=list)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+", factory=list)


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic, "0+", factory=list)
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+", default=False)


class CreatableTopicConfigs(Struct):
    name: str = string("5+", default="")
    value: str | None = string("5+", nullable="5+", default="")
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+", default=False)


class CreatableTopicResult(Struct):
    name: str = string("0+", default="")
    topic_id: bytes = uuid("7+", default=ZERO_UUID)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("1+", nullable="0+", default="")
    topic_config_error_code: int = int16("5+", tag=0, default=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", factory=list)


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+", factory=list)
