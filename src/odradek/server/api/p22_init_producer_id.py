"""InitProducerId 0-5: an id for an idempotent producer, never given twice.

3: a producer may name the id and epoch it has; without a transactional id it gets a new id all the same, as in Kafka
(the client bumps its own epoch, KIP-360), but one without the other is an error. 6, two-phase commit, is not
finished in Kafka either and stays hidden.

Transactions do not exist yet: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the only code
that every client reports at once without a retry; librdkafka retries others for ever.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_PRODUCER
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

NO_PRODUCER_EPOCH = -1


async def handle(ctx: BrokerContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    refusal = _refusal(ctx, request)
    if refusal:
        return _refused(refusal)
    try:
        producer_id = await ctx.broker.producer_ids.next_id()
    except KafkaError:
        # All clients retry this code. For older clients, other errors of the controller would be fatal.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refusal(ctx: BrokerContext, request: InitProducerIdRequest) -> ErrorCode:
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not ctx.authorize(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_PRODUCER_EPOCH)


API = Api(key=22, versions=(0, 5), request=InitProducerIdRequest, handle=handle)
