"""InitProducerId 0-5: an id and an epoch for a producer.

Without a transactional id, every request gets a new id. With one, the producer keeps its id and gets the next epoch,
which fences every older producer with the same transactional id. Its open transaction is aborted before.

3: a producer may name the id and epoch it has (KIP-360); one without the other is an error. 4: PRODUCER_FENCED instead
of INVALID_PRODUCER_EPOCH. 6, two-phase commit, is not finished in Kafka either and stays hidden.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_PRODUCER, ProducerId
from odradek.coordinator.transaction.shard import Initialization
from odradek.coordinator.transaction.transaction import NO_PRODUCER_EPOCH, ProducerIdentity
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext
from odradek.server.transactions.errors import for_version

PRODUCER_FENCED = 4


async def handle(ctx: BrokerContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    refusal = _refusal(ctx, request)
    if refusal:
        return _refused(refusal)
    if request.transactional_id is not None:
        return await _initialize(ctx, request, request.transactional_id)
    try:
        producer_id = await ctx.broker.producer_ids.next_id()
    except KafkaError:
        # All clients retry this code. For older clients, other errors of the controller would be fatal.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _initialize(
    ctx: BrokerContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    expected = None
    if request.producer_id != NO_PRODUCER:
        expected = ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch)
    initialization = Initialization(
        transactional_id=transactional_id, timeout_ms=request.transaction_timeout_ms, expected=expected
    )
    try:
        producer: ProducerIdentity = await ctx.broker.transactions.answered(
            transactional_id, lambda shard, to, now: shard.initialize(initialization, to, now)
        )
    except KafkaError as refusal:
        return _refused(for_version(refusal.code, ctx.version, PRODUCER_FENCED))
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


def _refusal(ctx: BrokerContext, request: InitProducerIdRequest) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not ctx.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not ctx.authorize(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if transactional_id == "" or (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER_EPOCH)


API = Api(key=22, versions=(0, 5), request=InitProducerIdRequest, handle=handle)
