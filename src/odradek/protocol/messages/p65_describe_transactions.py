"""API 65, DescribeTransactions, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = array(string, "0+", factory=list)


class TopicData(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array(int32, "0+", factory=list)


class TransactionState(Struct):
    error_code: int = int16("0+", default=0)
    transactional_id: str = string("0+", default="")
    transaction_state: str = string("0+", default="")
    transaction_timeout_ms: int = int32("0+", default=0)
    transaction_start_time_ms: int = int64("0+", default=0)
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    topics: list[TopicData] = array(TopicData, "0+", factory=list)


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", factory=list)
