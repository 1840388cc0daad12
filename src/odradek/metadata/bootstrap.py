"""The content of a formatted directory before its first start: the initial voters and the bootstrap records.

Two checkpoints in the format of metadata snapshots, as Kafka's storage tool writes them.
"""

from __future__ import annotations

from odradek.base.errors import UnusableDirectory
from odradek.metadata.batches import control_batch, metadata_batch, read_batches
from odradek.protocol.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from odradek.protocol.schema import Message
from odradek.quorum.voters import KRAFT_VERSION, VoterSet, voters_from_record

METADATA_LOG_DIRECTORY = "__cluster_metadata-0"
# A snapshot at offset 0 in epoch 0: the state before the first record.
VOTERS_CHECKPOINT = f"{METADATA_LOG_DIRECTORY}/00000000000000000000-0000000000.checkpoint"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


class BrokenCheckpoint(UnusableDirectory):
    """A checkpoint of the formatted directory is incomplete."""


def encode_voters(voters: VoterSet, wall_ms: int) -> bytes:
    header = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=wall_ms),
        KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION),
        voters.to_record(),
    ]
    return bytes(control_batch(header, wall_ms) + control_batch([SnapshotFooterRecord()], wall_ms, len(header)))


def decode_voters(data: bytes) -> VoterSet:
    found = [record for batch in read_batches(data) for record in batch.control if isinstance(record, VotersRecord)]
    if not found:
        raise BrokenCheckpoint("the metadata log's first checkpoint names no voters: format the directory again")
    return voters_from_record(found[-1])


def encode_bootstrap(records: tuple[Message, ...], wall_ms: int) -> bytes:
    return bytes(
        control_batch([SnapshotHeaderRecord()], wall_ms)
        + metadata_batch(records, wall_ms, 1)
        + control_batch([SnapshotFooterRecord()], wall_ms, 1 + len(records))
    )


def decode_bootstrap(data: bytes) -> tuple[Message, ...]:
    records = tuple(record for batch in read_batches(data) for record in batch.records)
    if not records:
        raise BrokenCheckpoint(f"{BOOTSTRAP_CHECKPOINT} is empty")
    return records
