"""Producer snapshots in Kafka's format: the state of all producers of a log at one offset.

A snapshot has only the last batch of each producer.
"""

from __future__ import annotations

from struct import Struct, error

from odradek.log.producer import NO_TRANSACTION, Producer, WrittenBatch
from odradek.log.producers import Producers
from odradek.log.transactions import Transactions
from odradek.protocol.checksum import crc32c

# version, checksum of all that follows it, number of entries
HEAD = Struct(">hIi")
VERSION = 1
CRC_START = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open
# transaction
ENTRY = Struct(">qhiqiqiq")

NEVER_WROTE = WrittenBatch(-1, -1, 0, -1)


class SnapshotBroken(ValueError):
    """A producer snapshot is broken. Use an older one, or the log itself."""


def encode_producers(producers: Producers) -> bytes:
    entries = b"".join(_entry(producer_id, producer) for producer_id, producer in producers.by_id.items())
    covered = len(producers.by_id).to_bytes(4, "big") + entries
    return HEAD.pack(VERSION, crc32c(covered), len(producers.by_id)) + entries


def decode_producers(content: bytes, offset: int) -> Producers:
    """The producers at `offset`."""
    _check(content)
    producers = Producers()
    for entry in ENTRY.iter_unpack(content[HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, start = entry
        producer = producers.by_id[producer_id] = Producer(epoch)
        if last_offset >= 0:
            producer.add(epoch, WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.marker_offset = offset - 1
        producer.transaction_start = start if start >= 0 else NO_TRANSACTION
    producers.transactions = Transactions(
        producer.transaction_start
        for producer in producers.by_id.values()
        if producer.transaction_start != NO_TRANSACTION
    )
    return producers


def decode_transactions(content: bytes) -> Transactions:
    """Only the open transactions: cheaper where the producers are not needed."""
    _check(content)
    return Transactions(entry[-1] for entry in ENTRY.iter_unpack(content[HEAD.size :]) if entry[-1] >= 0)


def _check(content: bytes) -> None:
    try:
        version, checksum, count = HEAD.unpack_from(content)
    except error:
        raise SnapshotBroken(f"{len(content)} bytes are too few for a snapshot") from None
    if version != VERSION:
        raise SnapshotBroken(f"it has version {version}, not {VERSION}")
    if len(content) != HEAD.size + count * ENTRY.size:
        raise SnapshotBroken(f"its {len(content)} bytes do not match its count of {count} producers")
    if crc32c(content[CRC_START:]) != checksum:
        raise SnapshotBroken("its checksum does not match")


def _entry(producer_id: int, producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else NEVER_WROTE
    return ENTRY.pack(
        producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start,
    )
