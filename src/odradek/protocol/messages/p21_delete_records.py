"""API 21, DeleteRecords, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32("0+", default=0)
    offset: int = int64("0+", default=0)


class DeleteRecordsTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+", factory=list)


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+", factory=list)
    timeout_ms: int = int32("0+", default=0)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    low_watermark: int = int64("0+", default=0)
    error_code: int = int16("0+", default=0)


class DeleteRecordsTopicResult(Struct):
    name: str = string("0+", default="")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+", factory=list)


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+", factory=list)
