"""Keys and values of `__transaction_state`. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, key=0, versions="0"):
    transactional_id: str = string("0", default="")


class PartitionsSchema(Struct):
    topic: str = string("0+", default="")
    partition_ids: list[int] = array(int32, "0+", factory=list)


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+"):
    producer_id: int = int64("0+", default=0)
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16("0+", default=0)
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32("0+", default=0)
    transaction_status: int = int8("0+", default=0)
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+", factory=list)
    transaction_last_update_timestamp_ms: int = int64("0+", default=0)
    transaction_start_timestamp_ms: int = int64("0+", default=0)
    client_transaction_version: int = int16("1+", tag=2, default=0)
