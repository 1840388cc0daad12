"""Blocks of producer ids. A block is durable before its ids are used, so no id is used twice."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller.brokers import check_broker_epoch
from odradek.controller.decision import Decision
from odradek.metadata.image import ClusterImage
from odradek.protocol.metadata_records import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000
_INT64_MAX = 2**63 - 1


def allocate_producer_ids(image: ClusterImage, broker_id: BrokerId, broker_epoch: int) -> Decision[range]:
    check_broker_epoch(image, broker_id, broker_epoch)
    block = range(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
    if block.stop > _INT64_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=block.stop)
    return Decision(
        records=(record,),
        response=block,
        sentence=f"gave producer ids {block.start} to {block.stop - 1} to broker {broker_id}",
    )
