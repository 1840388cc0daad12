"""Control batches that are in the log already: what they say about transactions."""

from __future__ import annotations

from odradek.log.producers import Producers
from odradek.log.transactions import AbortedTransaction
from odradek.protocol.batch import BatchHeader
from odradek.protocol.txn_marker import read_marker


def replay_control(producers: Producers, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
    """Take over a control batch, without checks. The aborted transaction for the index, if it ends one.

    Raises MalformedRecords.
    """
    marker = read_marker(header, batch)
    if marker is not None:
        return producers.end_transaction(marker, header.last_offset, header.max_timestamp)
    if header.producer_id >= 0 and header.records_count == 0:
        producers.record_emptied_marker(header.producer_id, header.producer_epoch, header.last_offset)
    return None
