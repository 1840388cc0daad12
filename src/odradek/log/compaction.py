"""What compaction keeps of one batch: the latest record of each key, and information that must outlive the records.

Base offset, last offset and sequences stay as they were: an offset never changes its meaning. Some batches are kept
even when they are empty:

- the last batch of a producer: it says which sequence comes next
- the first batch of a leader epoch: it says where the epoch before it ended
- the last batch of a leader epoch: it says that the epoch existed, even if all records before it are deleted

Records of aborted transactions go. Markers of transactions stay longer than the records (`compacted_transactions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.log import safeguards
from odradek.log.compacted_transactions import CompactedTransactions
from odradek.log.key_offsets import KeyOffsets
from odradek.log.producer import LastBatch
from odradek.protocol.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    NO_TIMESTAMP,
    BatchHeader,
    ByteSource,
    packed_batch,
    unpacked,
)
from odradek.protocol.compression import Codec, compress
from odradek.protocol.record_spans import RecordSpan, copy_records, record_spans
from odradek.protocol.records import LONG_MAX, LONG_MIN


@dataclass(slots=True, kw_only=True)
class Compaction:
    """The rules of one run over one log. Apply them to the batches in log order."""

    keys: KeyOffsets
    end_offset: int  # everything before it is in `keys`, nothing after it is touched
    high_watermark: int
    wall_ms: int
    delete_retention_ms: int
    last_batches: Mapping[int, LastBatch | None]  # by producer id; None when it may be any batch
    epoch_starts: frozenset[int]  # of leader epochs after epoch 0
    transactions: CompactedTransactions
    # Base offset of the batch that holds the first epoch start, or follows it when compaction left a gap there.
    _first_batch: int | None = field(default=None, init=False)
    _first_start: int = field(init=False)

    def __post_init__(self) -> None:
        self._first_start = min(self.epoch_starts, default=self.end_offset)

    def what_is_left(self, header: BatchHeader, batch: memoryview) -> ByteSource | None:
        """The batch itself, a smaller one, or None. The caller has verified the checksum. Raises MalformedRecords."""
        if self._first_batch is None and header.last_offset >= self._first_start:
            self._first_batch = header.base_offset
        if header.is_control:
            return self._what_is_left_of_control(header, batch)
        is_aborted = safeguards.drops_aborted(self.transactions.is_aborted(header))
        if header.base_offset >= self.end_offset:
            return batch
        if is_aborted:
            return self._nothing_left(header, batch)
        data = unpacked(header, batch)
        horizon = header.delete_horizon_ms
        deletions_stay = horizon is None or safeguards.keeps_deletion(self.wall_ms, horizon)
        kept = []
        deletes = False
        latest = self.keys.latest
        base_offset = header.base_offset
        for span in record_spans(data, header.records_count):
            key = span.key
            if key is None or base_offset + span.offset_delta < latest(key):
                continue
            if not span.has_value:
                if not deletions_stay:
                    continue
                deletes = True
            kept.append(span)
        if not kept:
            return self._nothing_left(header, batch)
        gets_horizon = deletes and horizon is None
        if len(kept) == header.records_count and not gets_horizon:
            return batch
        if gets_horizon:
            return _rewritten(header, data, kept, self.wall_ms + self.delete_retention_ms, DELETE_HORIZON)
        return _rewritten(header, data, kept, header.base_timestamp, 0)

    def _what_is_left_of_control(self, header: BatchHeader, batch: memoryview) -> ByteSource | None:
        if self.transactions.needs_marker(header, batch) or header.base_offset >= self.end_offset:
            return batch
        if header.records_count == 0:
            return self._nothing_left(header, batch)
        horizon = header.delete_horizon_ms
        if horizon is None:
            data = unpacked(header, batch)
            kept = list(record_spans(data, header.records_count))
            return _rewritten(header, data, kept, self.wall_ms + self.delete_retention_ms, DELETE_HORIZON)
        return batch if safeguards.keeps_deletion(self.wall_ms, horizon) else self._nothing_left(header, batch)

    def _nothing_left(self, header: BatchHeader, batch: memoryview) -> ByteSource | None:
        says_sequence = self._may_be_last(header) and safeguards.keeps_last_sequence()
        # Without the last batch, the log would end earlier after a crash, and a new follower would always end earlier.
        says_end = safeguards.keeps_last_offset(header.next_offset, self.high_watermark)
        # A new follower learns from the batches where epochs began. Without this, as leader it would not notice that
        # the last records of a follower have diverged.
        begins = header.base_offset == self._first_batch or header.base_offset in self.epoch_starts
        begins_epoch = begins and safeguards.keeps_epoch_starts()
        ends_epoch = header.next_offset in self.epoch_starts and safeguards.keeps_epoch_ends()
        if not (says_sequence or says_end or begins_epoch or ends_epoch):
            return None
        return batch if header.records_count == 0 else _emptied(header)

    def _may_be_last(self, header: BatchHeader) -> bool:
        if header.producer_id not in self.last_batches:
            return False
        last = self.last_batches[header.producer_id]
        return last is None or last.may_be(header)


def _rewritten(
    header: BatchHeader, data: bytes, kept: list[RecordSpan], base_timestamp: int, attributes: int
) -> bytearray:
    max_timestamp = header.max_timestamp
    if not header.uses_append_time:
        latest = header.base_timestamp + max(span.timestamp_delta for span in kept)
        # The timestamps of records are not validated: the append checks only those in the header.
        max_timestamp = min(max(latest, LONG_MIN), LONG_MAX)
    packed = compress(Codec(header.codec), copy_records(data, kept, header.base_timestamp - base_timestamp))
    return packed_batch(
        header._replace(
            attributes=header.attributes | attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=len(kept),
        ),
        packed,
    )


def _emptied(header: BatchHeader) -> bytearray:
    return packed_batch(
        header._replace(
            attributes=header.attributes & ~CODEC_MASK & ~DELETE_HORIZON, base_timestamp=NO_TIMESTAMP, records_count=0
        ),
        b"",
    )
