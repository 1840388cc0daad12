"""DescribeTransactions 0: the state of transactional ids that this broker coordinates."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.transaction.transaction import Transaction
from odradek.protocol.messages.p65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(ctx, transactional_id) for transactional_id in request.transactional_ids]
    )


def _describe(ctx: BrokerContext, transactional_id: str) -> TransactionState:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        transaction = ctx.broker.transactions.shard(transactional_id).committed(transactional_id)
    except KafkaError as refusal:
        return _refused(transactional_id, refusal.code)
    if transaction is None:
        return _refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=_topics(ctx, transaction),
    )


def _refused(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code)


def _topics(ctx: BrokerContext, transaction: Transaction) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for name, partition in transaction.partitions:
        topics.setdefault(name, TopicData(topic=name)).partitions.append(partition)
    return [topic for name, topic in topics.items() if ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)]


API = Api(key=65, versions=(0, 0), request=DescribeTransactionsRequest, handle=handle)
