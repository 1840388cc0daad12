"""TxnOffsetCommit 0-6: store how far a group has read, as part of a transaction.

2: leader epoch. 3: member and generation. 4: TRANSACTION_ABORTABLE if the transaction cannot go on. 5: the group's
offsets join the transaction by this request (KIP-890), AddOffsetsToTxn before. 6: topics by id, and an unknown group is
GROUP_ID_NOT_FOUND (KIP-1319).
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ProducerId, TopicPartition
from odradek.coordinator.effects import Producer
from odradek.coordinator.group.committing import refused
from odradek.coordinator.transaction.transaction import ProducerIdentity
from odradek.log.verification import NOT_REQUIRED, OPEN_HERE, Verification
from odradek.protocol.batch import NO_SEQUENCE
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.committed_topics import keep_known_topics
from odradek.server.internal_topics import OFFSETS_TOPIC
from odradek.server.led_partition import led_partition
from odradek.server.network.request import Api, BrokerContext

KNOWS_LOADING = 2
KNOWS_ABORTABLE = 4
JOINS = 5
BY_TOPIC_ID = 6


async def handle(ctx: BrokerContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    commit = _plain(request)
    try:
        _authorize(ctx, request)
        producer = await _verified(ctx, request)
    except KafkaError as refusal:
        return _answer(ctx, refused(commit, refusal.code))
    # After the wait: offsets of a topic that was deleted meanwhile would outlive it.
    unknown = keep_known_topics(ctx, commit, by_id=ctx.version >= BY_TOPIC_ID)
    response = OffsetCommitResponse()
    if commit.topics:
        try:
            response = await ctx.broker.groups.answered(
                request.group_id,
                lambda shard, to, now: shard.commit_offsets_in_transaction(commit, ctx.version, producer, to, now),
            )
        except KafkaError as refusal:
            response = refused(commit, refusal.code)
    response.topics += unknown
    return _answer(ctx, response)


def _authorize(ctx: BrokerContext, request: TxnOffsetCommitRequest) -> None:
    if not ctx.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


async def _verified(ctx: BrokerContext, request: TxnOffsetCommitRequest) -> Producer:
    ctx.broker.groups.shard(request.group_id)  # raises if this broker does not coordinate the group
    return Producer(request.producer_id, request.producer_epoch, await _verification(ctx, request))


async def _verification(ctx: BrokerContext, request: TxnOffsetCommitRequest) -> Verification:
    """Asks the transaction's coordinator, unless the transaction is known to be open here."""
    broker = ctx.broker
    joins = ctx.version >= JOINS
    if not joins and not broker.config.transaction_partition_verification_enable:
        return NOT_REQUIRED
    partition = led_partition(broker, OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    verification = partition.begin_verification(
        request.producer_id,
        request.producer_epoch,
        NO_SEQUENCE,
        adds_partition=joins,
        wall_ms=broker.clock.wall_ms(),
    )
    if verification is not OPEN_HERE:
        producer = ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch)
        asked = broker.transaction_partitions
        ask = asked.join if joins else asked.verify
        key = TopicPartition(partition.topic, partition.index)
        code = (await ask(request.transactional_id, producer, [key]))[key]
        if code:
            raise KafkaError(_for_client(ctx, code))
    return verification


def _for_client(ctx: BrokerContext, code: ErrorCode) -> ErrorCode:
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if ctx.version < KNOWS_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.NETWORK_EXCEPTION | ErrorCode.NOT_COORDINATOR:
            # The transaction coordinator is meant. To the client, NOT_COORDINATOR would mean this broker.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.CONCURRENT_TRANSACTIONS if ctx.version < JOINS:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code


def _plain(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        committed_metadata=partition.committed_metadata,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _answer(ctx: BrokerContext, response: OffsetCommitResponse) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=_code(ctx, partition.error_code)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


def _code(ctx: BrokerContext, code: int) -> int:
    """Producers before Kafka 2.0 fail on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.version < KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


API = Api(key=28, versions=(0, 6), request=TxnOffsetCommitRequest, handle=handle)
