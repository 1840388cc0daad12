"""A hanging transaction: open in a partition, but unknown to its coordinator."""

from __future__ import annotations

from odradek.protocol.batch import TRANSACTIONAL
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from traps.wire import Wire, batch

# Without this a broker refuses such a batch. Kafka has it, too; before 3.6 it was always off.
WITHOUT_VERIFICATION = {"transaction.partition.verification.enable": "false"}


def hang(port: int, topic: str, *values: bytes, partition: int = 0, timestamp: int | None = None) -> int:
    """Writes a batch of a transaction that no coordinator knows. Returns its producer id."""
    with Wire(port) as wire:
        begun = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        assert begun.error_code == 0
        data = batch(
            *values,
            timestamp=timestamp,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        answer = wire.produce(topic, data, version=9, partition=partition, transactional_id="lost")
        assert answer.error_code == 0, answer
    return int(begun.producer_id)
