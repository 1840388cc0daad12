"""The rules that protect data, one function each, so that a test can switch one off and see who notices.

Called as `safeguards.name(...)`, never imported by name: replacing the attribute is the switch.
"""

from __future__ import annotations

from odradek.base.ids import TopicId
from odradek.base.ports import ByteSource, Disk, File
from odradek.protocol.checksum import crc32c


def accepts_checksum(stored: int, covered: ByteSource) -> bool:
    """At append: what a client sent arrived as it was sent."""
    return bool(crc32c(covered) == stored)


def recovers_checksum(stored: int, covered: ByteSource) -> bool:
    """After an unclean stop: a batch that was half written is not one."""
    return bool(crc32c(covered) == stored)


def scans_after_unclean_stop() -> bool:
    """Without a clean-shutdown marker, whatever was not synced is read and checked before it is trusted."""
    return True


def cuts_torn_tail() -> bool:
    """The file ends after its last whole batch, so that the next append does not hide behind garbage."""
    return True


def drops_what_follows_a_hole() -> bool:
    """A segment that does not begin where the one before it ends was written after data that is gone."""
    return True


def expects_sequence(expected: int, sequence: int) -> bool:
    """A producer's batches follow each other without a gap."""
    return expected == sequence


def recognises_duplicates() -> bool:
    """A batch sent again is answered with its first offset instead of being written twice."""
    return True


def fences_old_producer_epochs() -> bool:
    return True


def stays_offline_after_failure() -> bool:
    """After an I/O error nothing more is appended: nobody knows what the file holds."""
    return True


def forgets_clean_stop_before_loading(disk: Disk, marker: str) -> None:
    """A crash while loading must not look like a clean stop at the next start."""
    disk.remove(marker)
    disk.sync_dir("")


def is_spoken_of(checkpointed: TopicId | None, topic_id: TopicId | None) -> bool:
    """A topic that was created again under its name is not judged by the checkpoints of the one before it.

    Nor is a log that lost its own name for the topic in a power cut: what it holds was never synced.
    """
    return topic_id is not None and checkpointed == topic_id


def returns_as_another(left_a_moment_ago: bool) -> bool:
    """Nor is a replica that comes back to a broker judged by the checkpoints of the one that left it."""
    return left_a_moment_ago


def sync_file(file: File) -> None:
    """Data, indexes and snapshots are durable before the recovery point passes them."""
    file.sync()


def recovery_point_to_write(recovery_point: int, indexed_to: int) -> int:
    """Inside the last segment whose indexes may not be durable yet.

    For recovery trusts the indexes of segments that end at it; those of one whose batches were synced while it grew
    come to disk when it is rolled, and are durable with the next sync.
    """
    return recovery_point - (recovery_point > indexed_to)


def sync_names(disk: Disk, directory: str) -> None:
    """So are the names of new files, and the absence of removed ones."""
    disk.sync_dir(directory)


def sync_leader_epochs(disk: Disk, path: str, content: bytes) -> None:
    """So is the epoch checkpoint: below the recovery point nobody will look into the batches for epochs."""
    disk.replace(path, content)


def sync_everything(disk: Disk) -> None:
    """At a clean stop, before the marker that says so; after any other stop, before acting on what is read."""
    disk.sync_all()


def keeps_from_high_watermark(segment_end_offset: int, high_watermark: int) -> bool:
    """Retention never takes what is not committed yet."""
    return segment_end_offset > high_watermark


def keeps_deletion(wall_ms: int, horizon_ms: int) -> bool:
    """Compaction keeps the record that deletes a key until every reader has had the time to see it."""
    return wall_ms < horizon_ms


def keeps_last_sequence() -> bool:
    """And, empty if need be, the batch by which a producer's next sequence is known."""
    return True


def keeps_last_offset(next_offset: int, high_watermark: int) -> bool:
    """And the one that says where the log ends."""
    return next_offset == high_watermark


def keeps_epoch_starts() -> bool:
    """And the first one of each leader epoch, by which whoever copies the log knows where the one before it ended."""
    return True


def keeps_epoch_ends() -> bool:
    """And the last one: wherever in the epoch the log begins by then, whoever copies it knows that it was there."""
    return True


def is_cleanable(segment_end_offset: int, last_stable_offset: int) -> bool:
    """Compaction never looks at what is not committed: a record that is truncated later has replaced nothing."""
    return segment_end_offset <= last_stable_offset


def sync_before_swap(file: File) -> None:
    """What takes the place of other segments is durable before they go."""
    file.sync()


def sync_swap(disk: Disk, directory: str) -> None:
    """Each step of that is durable before the next."""
    disk.sync_dir(directory)


def cleaned_after_truncation(cleaned_until: int, end_offset: int) -> int:
    """What is written anew is dirty: its deletions must not expire before what they delete was looked for."""
    return min(cleaned_until, end_offset)
