"""What the transactions of a partition write, and its records in `__transaction_state`."""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.ids import ProducerId, TopicPartition
from odradek.coordinator.transaction.states import STATE_CODES, STATES_BY_CODE, State
from odradek.coordinator.transaction.transaction import Transaction
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.transaction_records import (
    PartitionsSchema,
    TransactionLogValue,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)


class TransactionStored(NamedTuple):
    transactional_id: str
    # None: the transactional id has expired.
    transaction: Transaction | None


def encode(change: TransactionStored, transaction_version: int) -> tuple[bytes, bytes | None]:
    """Brokers before transaction.version 1 cannot read tagged fields, so such a cluster gets none."""
    key = encode_transaction_key(change.transactional_id)
    transaction = change.transaction
    if transaction is None:
        return key, None
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=STATE_CODES[transaction.state],
        transaction_partitions=None if transaction.state is State.EMPTY else _by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return key, encode_transaction_value(value, min(transaction_version, 1))


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    topics: dict[str, PartitionsSchema] = {}
    for topic, partition in transaction.partitions:
        topics.setdefault(topic, PartitionsSchema(topic=topic)).partition_ids.append(partition)
    return list(topics.values())


def decode(key: bytes, value: bytes | None) -> TransactionStored:
    transactional_id = decode_transaction_key(key)
    if value is None:
        return TransactionStored(transactional_id, None)
    stored = decode_transaction_value(value)
    state = STATES_BY_CODE.get(stored.transaction_status)
    if state is None:
        raise MalformedMessage(f"{transactional_id} has the unknown transaction status {stored.transaction_status}")
    partitions = {
        TopicPartition(topic.topic, partition)
        for topic in stored.transaction_partitions or ()
        for partition in topic.partition_ids
    }
    return TransactionStored(
        transactional_id,
        Transaction(
            transactional_id=transactional_id,
            producer_id=ProducerId(stored.producer_id),
            previous_producer_id=ProducerId(stored.previous_producer_id),
            next_producer_id=ProducerId(stored.next_producer_id),
            producer_epoch=stored.producer_epoch,
            timeout_ms=stored.transaction_timeout_ms,
            state=state,
            partitions=tuple(sorted(partitions)),
            started_ms=stored.transaction_start_timestamp_ms,
            updated_ms=stored.transaction_last_update_timestamp_ms,
            client_version=stored.client_transaction_version,
        ),
    )
