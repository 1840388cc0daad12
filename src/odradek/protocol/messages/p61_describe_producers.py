"""API 61, DescribeProducers, version 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array(int32, "0+", factory=list)


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest, "0+", factory=list)


class ProducerState(Struct):
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int32("0+", default=0)
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+", default=0)
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, "0+", factory=list)


class TopicResponse(Struct):
    name: str = string("0+", default="")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+", factory=list)


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[TopicResponse] = array(TopicResponse, "0+", factory=list)
