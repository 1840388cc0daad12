from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.topics import delete_topics
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p20_delete_topics import DeleteTopicState
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.group_broker import GroupBroker

GROUP, TRANSACTIONAL_ID = "readers", "copier"
GROUP_KEY, TRANSACTION_KEY = 0, 1
JOINS = 5


async def commit_of_a_new_producer(broker: GroupBroker, *topics: str) -> TxnOffsetCommitRequest:
    for kind, key in ((GROUP_KEY, GROUP), (TRANSACTION_KEY, TRANSACTIONAL_ID)):
        found = await broker.send(10, FindCoordinatorRequest(key=key, key_type=kind), 2)
        assert found.error_code == 0
    for topic in topics:
        broker.create_topic(topic, 1)
    begin = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    begun = await broker.send(22, begin, 4)
    assert begun.error_code == 0
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id=TRANSACTIONAL_ID,
        group_id=GROUP,
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset]) for topic in topics],
    )


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_the_offset_of_a_topic_that_is_deleted_while_the_transaction_is_verified_is_not_kept(is_made_anew):
    """Otherwise it would outlive the topic, and the group would skip the first records of the next one of that name."""
    broker = GroupBroker()

    async def story():
        request = await commit_of_a_new_producer(broker, "deleted", "kept")
        deleted_id = broker.broker.image.topics["deleted"].topic_id
        committing = broker.later(28, request, JOINS)
        await asyncio.sleep(0)
        transaction = broker.broker.transactions.shard(TRANSACTIONAL_ID).transactions.newest[TRANSACTIONAL_ID]
        assert not transaction.partitions, "the coordinator has not answered"
        broker.commit(delete_topics(broker.broker.image, [DeleteTopicState(name="deleted")]).records)
        if is_made_anew:
            broker.create_topic("deleted", 1)
        answer = await committing
        codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        gone = ErrorCode.NONE if is_made_anew else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {"kept": ErrorCode.NONE, "deleted": gone}
        offsets = broker.broker.groups.shard(GROUP).offsets
        assert deleted_id not in {committed.topic_id for _, _, committed in offsets.open()}
        assert "kept" in {partition.topic for partition in offsets.pending(GROUP)}

    broker.run(story())
