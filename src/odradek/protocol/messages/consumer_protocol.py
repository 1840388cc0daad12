"""What consumers of a classic group tell each other. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, binary, int32, string


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = string("1+", default="")
    partitions: list[int] = array(int32, "1+", factory=list)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string, "0+", factory=list)
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", factory=list
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array(int32, "0+", factory=list)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+", factory=list
    )
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
