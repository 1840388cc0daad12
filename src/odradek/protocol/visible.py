"""Which of the fetched batches a reader may see: valid ones, without control records and aborted transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from odradek.protocol.batch import TRANSACTIONAL, Batch, has_valid_checksum, iter_records
from odradek.protocol.control_records import ControlType, decode_control_key
from odradek.protocol.malformed import MalformedRecords

Aborted = Iterable[tuple[int, int]]
"""Producer id and first offset of transactions that were aborted, as a fetch response lists them."""


def visible(batches: Iterable[Batch], aborted: Aborted) -> Iterator[Batch]:
    """The batches that readers may see: without control records and without aborted transactions."""
    waiting = deque(sorted(aborted, key=lambda entry: entry[1]))
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while waiting and waiting[0][1] <= header.last_offset:
            aborting.add(waiting.popleft()[0])
        if header.is_control:
            if _is_abort_marker(batch):
                aborting.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborting):
            yield batch


def checked(batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        if not has_valid_checksum(batch.data):
            raise MalformedRecords(f"the batch at offset {batch.header.base_offset} has a wrong checksum")
        yield batch


def _is_abort_marker(batch: Batch) -> bool:
    for record in iter_records(batch.data):
        return record.key is not None and decode_control_key(record.key) == ControlType.ABORT
    return False
