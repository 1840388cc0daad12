"""Metadata snapshots, as Kafka writes them: what was true at an offset, in place of the log before it. Read only."""

from __future__ import annotations

import re

from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.ports import Disk
from odradek.metadata.batches import MetadataBatch, read_batches
from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY, BrokenCheckpoint
from odradek.protocol.batch import has_valid_checksum, iter_batches
from odradek.protocol.control_records import SnapshotFooterRecord
from odradek.quorum.log_facts import SnapshotId

_NAME = re.compile(r"(?P<end_offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")


def newest_snapshot(disk: Disk) -> SnapshotId | None:
    """The one at offset 0 does not count: it names the first voters, and nothing was true yet."""
    found = [
        SnapshotId(Offset(int(name["end_offset"])), LeaderEpoch(int(name["epoch"])))
        for name in map(_NAME.fullmatch, disk.listdir(METADATA_LOG_DIRECTORY))
        if name
    ]
    newest = max(found, default=None)
    return newest if newest and newest.end_offset > 0 else None


def read_snapshot(disk: Disk, snapshot: SnapshotId) -> list[MetadataBatch]:
    """Slow. Raises MalformedMessage for a record that is not known here."""
    name = f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
    data = disk.read(f"{METADATA_LOG_DIRECTORY}/{name}")
    if not all(has_valid_checksum(batch) for _, batch in iter_batches(data)):
        raise BrokenCheckpoint(f"{name} does not match its checksum")
    batches = list(read_batches(data))
    if not batches or not any(isinstance(record, SnapshotFooterRecord) for record in batches[-1].control):
        raise BrokenCheckpoint(f"{name} is not whole")
    return batches
