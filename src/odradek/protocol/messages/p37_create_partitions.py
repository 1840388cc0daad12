"""API 37, CreatePartitions, versions 0-3. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32, "0+", factory=list)


class CreatePartitionsTopic(Struct):
    name: str = string("0+", default="")
    count: int = int32("0+", default=0)
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+", factory=list
    )


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+", factory=list)
    timeout_ms: int = int32("0+", default=0)
    validate_only: bool = boolean("0+", default=False)


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+", factory=list)
