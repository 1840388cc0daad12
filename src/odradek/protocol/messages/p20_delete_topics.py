"""API 20, DeleteTopics, versions 1-6. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", factory=list)
    topic_names: list[str] = array(string, "0-5", factory=list)
    timeout_ms: int = int32("0+", default=0)


class DeletableTopicResult(Struct):
    name: str | None = string("0+", nullable="6+", default="")
    topic_id: bytes = uuid("6+", default=ZERO_UUID)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+", factory=list)
