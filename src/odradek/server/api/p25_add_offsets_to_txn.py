"""AddOffsetsToTxn 0-4: the offsets of a group become part of a transaction. 2: PRODUCER_FENCED.

Clients with transaction.version 2 do not send it: TxnOffsetCommit does the same.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ProducerId, TopicPartition
from odradek.coordinator.transaction.shard import Joining
from odradek.coordinator.transaction.transaction import ProducerIdentity
from odradek.protocol.messages.p25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.internal_topics import OFFSETS_TOPIC, create_offsets_topic
from odradek.server.network.request import Api, BrokerContext
from odradek.server.transactions.errors import for_version

PRODUCER_FENCED = 2


async def handle(ctx: BrokerContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        await _join(ctx, request)
    except KafkaError as refusal:
        return AddOffsetsToTxnResponse(error_code=for_version(refusal.code, ctx.version, PRODUCER_FENCED))
    return AddOffsetsToTxnResponse()


async def _join(ctx: BrokerContext, request: AddOffsetsToTxnRequest) -> None:
    if not ctx.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    broker = ctx.broker
    await create_offsets_topic(broker)
    if OFFSETS_TOPIC not in broker.image.topics:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    joining = Joining(
        transactional_id=request.transactional_id,
        producer=ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
        partitions=[TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))],
        client_version=0,
        waits=True,
    )
    await broker.transactions.answered(request.transactional_id, lambda shard, to, now: shard.join(joining, to, now))


API = Api(key=25, versions=(0, 4), request=AddOffsetsToTxnRequest, handle=handle)
