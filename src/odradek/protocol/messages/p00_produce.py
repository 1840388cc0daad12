"""API 0, Produce, versions 3-13. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, binary, int16, int32, int64, string, struct, uuid


class PartitionProduceData(Struct):
    index: int = int32("0+", default=0)
    records: bytes | None = binary("0+", nullable="0+", default=None)


class TopicProduceData(Struct):
    name: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+", factory=list)


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+", default=0)
    timeout_ms: int = int32("0+", default=0)
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+", factory=list)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    base_offset: int = int64("0+", default=0)
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", factory=list)
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0, factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+", factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+", factory=list)
    throttle_time_ms: int = int32("1+", default=0)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, factory=list)
