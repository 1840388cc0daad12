"""AddPartitionsToTxn 0-5: partitions become part of a transaction.

0-3: from clients, one transaction. 2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. 4: from leaders of partitions,
for several transactions, which may also only ask whether their partitions are part of them (KIP-890). 5: that answer
may be TRANSACTION_ABORTABLE.

If one partition of a transaction is unknown or not allowed, no partition joins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ProducerId, TopicPartition
from odradek.coordinator.transaction.shard import Joining
from odradek.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, ProducerIdentity
from odradek.protocol.messages.p24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext
from odradek.server.transactions.errors import for_version
from odradek.server.visible_cluster import is_internal

PRODUCER_FENCED = 2
FROM_BROKERS = 4

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(ctx: BrokerContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if ctx.version >= FROM_BROKERS:
        return await _from_broker(ctx, request)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    if ctx.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        codes = await _answer(ctx, transaction)
    else:
        codes = _all(transaction, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(transaction.topics, codes))


async def _from_broker(ctx: BrokerContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    # In the order of the request: senders rely on it.
    answers = await asyncio.gather(*(_answer(ctx, transaction) for transaction in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_results(transaction.topics, codes)
            )
            for transaction, codes in zip(request.transactions, answers, strict=True)
        ]
    )


async def _answer(ctx: BrokerContext, transaction: AddPartitionsToTxnTransaction) -> Codes:
    refused = _not_added(ctx, transaction.topics)
    if refused:
        return {**_all(transaction, ErrorCode.OPERATION_NOT_ATTEMPTED), **refused}
    try:
        return await _ask_coordinator(ctx, transaction)
    except KafkaError as refusal:
        return _all(transaction, for_version(refusal.code, ctx.version, PRODUCER_FENCED))


def _not_added(ctx: BrokerContext, topics: list[AddPartitionsToTxnTopic]) -> Codes:
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        code = ErrorCode.NONE
        if ctx.version < FROM_BROKERS and (
            is_internal(topic.name) or not ctx.authorize(Operation.WRITE, ResourceType.TOPIC, topic.name)
        ):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        known = ctx.broker.image.topics.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        for index in topic.partitions:
            if code or not 0 <= index < count:
                refused[TopicPartition(topic.name, index)] = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


async def _ask_coordinator(ctx: BrokerContext, transaction: AddPartitionsToTxnTransaction) -> Codes:
    transactional_id = transaction.transactional_id
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    producer = ProducerIdentity(ProducerId(transaction.producer_id), transaction.producer_epoch)
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    coordinator = ctx.broker.transactions
    if transaction.verify_only:
        codes: Codes = await coordinator.answered(
            transactional_id, lambda shard, to, now: shard.verify(transactional_id, producer, partitions, to, now)
        )
        return codes
    from_broker = ctx.version >= FROM_BROKERS
    joining = Joining(
        transactional_id=transactional_id,
        producer=producer,
        partitions=partitions,
        client_version=EPOCH_PER_TRANSACTION if from_broker else 0,
        # The answer to a leader is also that to other transactions: it asks again by itself.
        waits=not from_broker,
    )
    await coordinator.answered(transactional_id, lambda shard, to, now: shard.join(joining, to, now))
    return _all(transaction, ErrorCode.NONE)


def _all(transaction: AddPartitionsToTxnTransaction, code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
    return {TopicPartition(topic.name, index): code for topic in transaction.topics for index in topic.partitions}


def _results(topics: list[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(key=24, versions=(0, 5), request=AddPartitionsToTxnRequest, handle=handle)
