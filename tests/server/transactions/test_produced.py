"""Transactional batches whose partition changes while their coordinator is asked."""

from __future__ import annotations

import struct

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.verification import OPEN_HERE
from odradek.server.transactions.produced import Verified
from support.data_broker import DataBroker, batch

ATTRIBUTES, TRANSACTIONAL = 21, 0x10


def test_batch_for_a_log_opened_again_meanwhile_is_sent_again(run):
    """The producer must not get an error that ends it: the coordinator has its transaction."""
    transactional = batch("x", producer_id=7, producer_epoch=0, base_sequence=0)
    struct.pack_into(">h", transactional, ATTRIBUTES, TRANSACTIONAL)

    async def scenario():
        async with DataBroker() as broker:
            broker.create_topic("t", 2)
            before, after = broker.partition("t", 0), broker.partition("t", 1)
            verified = Verified({before: OPEN_HERE}, {})
            assert verified.of(before, memoryview(transactional)) is OPEN_HERE
            assert verified.of(after, memoryview(batch("outside of transactions"))) is None
            with pytest.raises(KafkaError) as refused:
                verified.of(after, memoryview(transactional))
            assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS

    run(scenario())
