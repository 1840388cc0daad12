"""Restoring the producer state of a log from the newest valid snapshot and the batches appended since."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.limits import MIB
from odradek.base.ports import File
from odradek.log.folder import SNAPSHOT, Folder, offset_name
from odradek.log.markers import replay_control
from odradek.log.producer_snapshots import SnapshotBroken, decode_producers, encode_producers
from odradek.log.producers import Producers
from odradek.log.scan import BatchSeen, headers
from odradek.log.segment import Segment
from odradek.log.transactions import AbortedTransaction
from odradek.protocol.batch import CONTROL, TRANSACTIONAL, read_header
from odradek.protocol.malformed import MalformedRecords

story = logging.getLogger(__name__)

# By default a producer has five batches of 16 KB in flight.
LOOK_BACK_BYTES = MIB


def restore_producers(folder: Folder, snapshots: list[int], segments: list[Segment], end_offset: int) -> Producers:
    """The state at `end_offset`. Broken snapshots are deleted, and removed from `snapshots`."""
    # A snapshot before the first segment is not used: batches after it were deleted.
    producers, known_until = _newest_snapshot(folder, snapshots, segments[0].base_offset, end_offset)
    if producers.by_id:
        _look_back(producers, segments, known_until)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= known_until:
            continue
        if segment.base_offset >= end_offset:
            break
        start = segment.locate(known_until) if known_until > segment.base_offset else 0
        if start is not None:
            for seen in headers(segment.file, start, segment.size):
                if known_until <= seen.base_offset < end_offset:
                    _replay(producers, segment.file, seen)
    return producers


def rebuild_aborted(folder: Folder, snapshots: list[int], segments: list[Segment], rebuilt: list[Segment]) -> None:
    """Build the indexes of aborted transactions of adjacent segments again. Not durable yet."""
    producers = restore_producers(folder, snapshots, segments, rebuilt[0].base_offset)
    for segment in rebuilt:
        found = (_replay(producers, segment.file, seen) for seen in headers(segment.file, 0, segment.size))
        segment.aborted.replace([aborted for aborted in found if aborted is not None])


def _look_back(producers: Producers, segments: list[Segment], known_until: int) -> None:
    """A snapshot has only the last batch of each producer. The others in flight are near the end of the log."""
    recent: list[tuple[Segment, int]] = []
    wanted = LOOK_BACK_BYTES
    for segment in reversed(segments):
        if segment.base_offset < known_until and wanted > 0:
            recent.append((segment, segment.batch_before(max(0, segment.size - wanted))))
            wanted -= segment.size
    for segment, start in reversed(recent):
        for seen in headers(segment.file, start, segment.size):
            if seen.last_offset < known_until and seen.producer_id >= 0 and not seen.attributes & CONTROL:
                _record(producers.record_earlier, seen)


def _replay(producers: Producers, file: File, seen: BatchSeen) -> AbortedTransaction | None:
    """Take over a batch that is in the log already, without checks. The transaction that it aborts, if any."""
    if seen.producer_id < 0:
        return None
    if not seen.attributes & CONTROL:
        _record(producers.record_transactional if seen.attributes & TRANSACTIONAL else producers.record, seen)
        return None
    data = file.pread(seen.end_position - seen.position, seen.position)
    try:
        return replay_control(producers, read_header(data), memoryview(data))
    except MalformedRecords as broken:
        story.warning("%s: ignoring the control batch at position %d: %s", file.path, seen.position, broken)
        return None


def _record(record: Callable[[int, int, int, int, int, int], None], seen: BatchSeen) -> None:
    record(
        seen.producer_id,
        seen.producer_epoch,
        seen.base_sequence,
        seen.last_offset,
        seen.last_offset - seen.base_offset,
        seen.max_timestamp,
    )


def write_snapshot(folder: Folder, producers: Producers, offset: int) -> str:
    """Write a snapshot, not durable yet. Returns the file name."""
    name = offset_name(offset, SNAPSHOT)
    folder.write(name, encode_producers(producers))
    return name


def _newest_snapshot(folder: Folder, snapshots: list[int], start_offset: int, end_offset: int) -> tuple[Producers, int]:
    for offset in reversed([offset for offset in snapshots if start_offset <= offset <= end_offset]):
        name = offset_name(offset, SNAPSHOT)
        try:
            return decode_producers(folder.disk.read(folder.at(name)), offset), offset
        except (SnapshotBroken, FileNotFoundError) as broken:
            story.warning("%s: ignoring producer snapshot %d: %s", folder.path, offset, broken)
            snapshots.remove(offset)
            if folder.exists(name):
                folder.remove(name)
    return Producers(), 0
