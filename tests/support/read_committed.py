"""What a consumer with read_committed sees of fetched batches, by the algorithm of Kafka's clients."""

from __future__ import annotations

from odradek.protocol.batch import has_valid_checksum, iter_batches, iter_records
from odradek.protocol.txn_marker import read_marker


def visible_records(data, aborted):
    """`aborted`: producer ids and first offsets, as a fetch response has them."""
    waiting = sorted(aborted, key=lambda one: one[1])
    aborting = {}
    for header, batch in iter_batches(data):
        assert has_valid_checksum(batch)
        while waiting and waiting[0][1] <= header.last_offset:
            aborting[waiting.pop(0)[0]] = None
        if header.is_control:
            marker = read_marker(header, batch)
            if marker is not None and not marker.committed:
                aborting.pop(marker.producer_id, None)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from iter_records(batch)
