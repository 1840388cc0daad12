"""API 56, AlterPartition, versions 2-3. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, uuid


class BrokerState(Struct):
    broker_id: int = int32("3+", default=0)
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    new_isr: list[int] = array(int32, "0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", factory=list)
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+", default=0)


class AlterPartitionRequestTopicData(Struct):
    topic_id: bytes = uuid("2+", default=ZERO_UUID)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData, "0+", factory=list)


class AlterPartitionRequest(Message, key=56, versions="2-3", flexible="0+"):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData, "0+", factory=list)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    isr: list[int] = array(int32, "0+", factory=list)
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+", default=0)


class AlterPartitionResponseTopicData(Struct):
    topic_id: bytes = uuid("2+", default=ZERO_UUID)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData, "0+", factory=list
    )


class AlterPartitionResponse(Message, key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData, "0+", factory=list)
