"""API 66, ListTransactions, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = array(string, "0+", factory=list)
    producer_id_filters: list[int] = array(int64, "0+", factory=list)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = string("0+", default="")
    producer_id: int = int64("0+", default=0)
    transaction_state: str = string("0+", default="")


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    unknown_state_filters: list[str] = array(string, "0+", factory=list)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", factory=list)
