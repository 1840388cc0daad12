"""API 27, WriteTxnMarkers, versions 1-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array(int32, "0+", factory=list)


class WritableTxnMarker(Struct):
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    transaction_result: bool = boolean("0+", default=False)
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+", factory=list)
    coordinator_epoch: int = int32("0+", default=0)
    transaction_version: int = int8("2+", default=0)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+", factory=list)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class WritableTxnMarkerTopicResult(Struct):
    name: str = string("0+", default="")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+", factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64("0+", default=0)
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+", factory=list)


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+", factory=list)
