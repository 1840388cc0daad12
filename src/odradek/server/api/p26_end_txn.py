"""EndTxn 0-5: commit or abort. It is answered when the outcome is decided, before all partitions have their markers.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. 5: the answer has the epoch for the next transaction (KIP-890).
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ProducerId
from odradek.coordinator.transaction.ending import Ending
from odradek.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION, ProducerIdentity
from odradek.protocol.messages.p26_end_txn import EndTxnRequest, EndTxnResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext
from odradek.server.transactions.errors import for_version

PRODUCER_FENCED = 2
NEW_EPOCH = 5


async def handle(ctx: BrokerContext, request: EndTxnRequest) -> EndTxnResponse:
    transactional_id = request.transactional_id
    if not ctx.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    ending = Ending(
        transactional_id=transactional_id,
        producer=ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch),
        commits=request.committed,
        client_version=EPOCH_PER_TRANSACTION if ctx.version >= NEW_EPOCH else 0,
    )
    try:
        following: ProducerIdentity = await ctx.broker.transactions.answered(
            transactional_id, lambda shard, to, now: shard.end(ending, to, now)
        )
    except KafkaError as refusal:
        return EndTxnResponse(error_code=for_version(refusal.code, ctx.version, PRODUCER_FENCED))
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)


API = Api(key=26, versions=(0, 5), request=EndTxnRequest, handle=handle)
