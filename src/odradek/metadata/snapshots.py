"""Metadata snapshots in Kafka's format: the state at an offset, which replaces the log before it."""

from __future__ import annotations

import re
from itertools import islice

from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.ports import Disk
from odradek.metadata.batches import MetadataBatch, control_batch, metadata_batch, read_batches
from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY, BrokenCheckpoint
from odradek.metadata.image import ClusterImage
from odradek.metadata.image_records import records_of
from odradek.protocol.batch import has_valid_checksum, iter_batches
from odradek.protocol.control_records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord
from odradek.protocol.malformed import MalformedRecords
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.voters import KRAFT_VERSION, VoterSet

RECORDS_PER_BATCH = 1000
_NAME = re.compile(r"(?P<end_offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")


def snapshot_path(snapshot: SnapshotId) -> str:
    return f"{METADATA_LOG_DIRECTORY}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def snapshots_on(disk: Disk) -> list[SnapshotId]:
    """Oldest first. Without the one at offset 0, which has only the initial voters."""
    found = [
        SnapshotId(Offset(int(name["end_offset"])), LeaderEpoch(int(name["epoch"])))
        for name in map(_NAME.fullmatch, disk.listdir(METADATA_LOG_DIRECTORY))
        if name
    ]
    return sorted(snapshot for snapshot in found if snapshot.end_offset > 0)


def encode_snapshot(image: ClusterImage, voters: VoterSet, wall_ms: int) -> bytes:
    """Slow for a large cluster. `image` must not have an open transaction."""
    header = [
        SnapshotHeaderRecord(version=0, last_contained_log_timestamp=wall_ms),
        KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION),
        voters.to_record(),
    ]
    content = control_batch(header, wall_ms)
    offset = len(header)
    records = records_of(image)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        content += metadata_batch(chunk, wall_ms, offset)
        offset += len(chunk)
    return bytes(content + control_batch([SnapshotFooterRecord()], wall_ms, offset))


def read_snapshot(disk: Disk, snapshot: SnapshotId) -> list[MetadataBatch]:
    """Slow."""
    return decode_snapshot(disk.read(snapshot_path(snapshot)), snapshot_path(snapshot))


def decode_snapshot(content: bytes, name: str) -> list[MetadataBatch]:
    """Raises MalformedMessage for an unknown record."""
    try:
        sound = all(has_valid_checksum(batch) for _, batch in iter_batches(content))
    except MalformedRecords as broken:
        raise BrokenCheckpoint(f"{name} cannot be read: {broken}") from broken
    if not sound:
        raise BrokenCheckpoint(f"{name} does not match its checksum")
    batches = list(read_batches(content))
    if not batches or not any(isinstance(record, SnapshotFooterRecord) for record in batches[-1].control):
        raise BrokenCheckpoint(f"{name} is not whole")
    return batches
