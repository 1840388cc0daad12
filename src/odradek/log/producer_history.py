"""Bringing back what the log knew of its producers: the newest whole snapshot, and what was appended since."""

from __future__ import annotations

import logging

from odradek.log.folder import SNAPSHOT, Folder, offset_name
from odradek.log.producers import Producers, SnapshotBroken
from odradek.log.scan import BatchSeen, headers
from odradek.log.segment import Segment
from odradek.protocol.batch import CONTROL

story = logging.getLogger(__name__)


def restore_producers(folder: Folder, snapshots: list[int], segments: list[Segment], end_offset: int) -> Producers:
    """The state at `end_offset`. Broken snapshots are removed, from `snapshots` too."""
    producers, known_until = _newest_snapshot(folder, snapshots, end_offset)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= known_until:
            continue
        if segment.base_offset >= end_offset:
            break
        start = segment.locate(known_until) if known_until > segment.base_offset else 0
        if start is not None:
            for seen in headers(segment.file, start, segment.size):
                if known_until <= seen.base_offset < end_offset:
                    note_producer(producers, seen)
    return producers


def note_producer(producers: Producers, seen: BatchSeen) -> None:
    """A batch that is in the log already: what it says is true."""
    if seen.producer_id >= 0 and not seen.attributes & CONTROL:
        producers.record(
            seen.producer_id,
            seen.producer_epoch,
            seen.base_sequence,
            seen.last_offset,
            seen.last_offset - seen.base_offset,
            seen.max_timestamp,
        )


def write_snapshot(folder: Folder, producers: Producers, offset: int) -> str:
    """Not yet durable. The file's name."""
    name = offset_name(offset, SNAPSHOT)
    content = producers.encode()
    file = folder.create(name)
    file.truncate(0)
    if file.pwrite(content, 0) != len(content):
        raise OSError(f"{name} was not written whole")
    file.close()
    return name


def _newest_snapshot(folder: Folder, snapshots: list[int], end_offset: int) -> tuple[Producers, int]:
    for offset in reversed([offset for offset in snapshots if offset <= end_offset]):
        name = offset_name(offset, SNAPSHOT)
        try:
            return Producers.decode(folder.disk.read(folder.at(name))), offset
        except (SnapshotBroken, FileNotFoundError) as broken:
            story.warning("%s: producer snapshot %d is no use: %s", folder.path, offset, broken)
            snapshots.remove(offset)
            if folder.exists(name):
                folder.remove(name)
    return Producers(), 0
