"""The rules that protect data, one function each. A test can disable one and check that other tests fail.

Call them as `safeguards.name(...)`, never import them by name: tests replace the attribute to disable a rule.
"""

from __future__ import annotations

from odradek.base.ids import TopicId
from odradek.base.ports import ByteSource, Disk, File
from odradek.log.transactions import AbortedTransaction
from odradek.log.verification import NOT_REQUIRED, Verification
from odradek.protocol.checksum import crc32c


def accepts_checksum(stored: int, covered: ByteSource) -> bool:
    """At append: the batch arrived as the client sent it."""
    return bool(crc32c(covered) == stored)


def recovers_checksum(stored: int, covered: ByteSource) -> bool:
    """After an unclean stop: a partly written batch does not count as a batch."""
    return bool(crc32c(covered) == stored)


def scans_after_unclean_stop() -> bool:
    """Without a clean-shutdown marker, everything that was not synced is read and checked before use."""
    return True


def cuts_torn_tail() -> bool:
    """The file is truncated after its last whole batch, so that no garbage precedes the next append."""
    return True


def drops_what_follows_a_hole() -> bool:
    """A segment that does not begin where the one before it ends is deleted: records before it are lost."""
    return True


def expects_sequence(expected: int, sequence: int) -> bool:
    """A producer's batches follow each other without a gap."""
    return expected == sequence


def recognises_duplicates() -> bool:
    """A retried batch is answered with its first offset and not written twice."""
    return True


def fences_old_producer_epochs() -> bool:
    return True


def stays_offline_after_failure() -> bool:
    """After an I/O error nothing more is appended: the content of the file is unknown."""
    return True


def forgets_clean_stop_before_loading(disk: Disk, marker: str) -> None:
    """A crash while loading must not look like a clean stop at the next start."""
    disk.remove(marker)
    disk.sync_dir("")


def is_spoken_of(checkpointed: TopicId | None, topic_id: TopicId | None) -> bool:
    """The checkpoints of a deleted topic do not apply to a new topic with the same name.

    Checkpoints also do not apply to a log that lost its topic id in a power cut: its content was never synced.
    """
    return topic_id is not None and checkpointed == topic_id


def returns_as_another(left_a_moment_ago: bool) -> bool:
    """When a replica returns to a broker, the checkpoints of the replica that left do not apply to it."""
    return left_a_moment_ago


def sync_file(file: File) -> None:
    """Data, indexes and snapshots are durable before the recovery point passes them."""
    file.sync()


def recovery_point_to_write(recovery_point: int, indexed_to: int) -> int:
    """A recovery point inside the last segment whose indexes may not be durable yet.

    Recovery trusts the indexes of segments that end at or before the recovery point. The indexes of the active segment
    are written when it is rolled, and are durable only after the next sync.
    """
    return recovery_point - (recovery_point > indexed_to)


def sync_names(disk: Disk, directory: str) -> None:
    """New file names and removals are durable before the recovery point passes them."""
    disk.sync_dir(directory)


def sync_leader_epochs(disk: Disk, path: str, content: bytes) -> None:
    """So is the epoch checkpoint: recovery does not read epochs from batches below the recovery point."""
    disk.replace(path, content)


def sync_everything(disk: Disk) -> None:
    """At a clean stop, before the marker is written. After any other stop, before the broker uses what it reads."""
    disk.sync_all()


def keeps_from_high_watermark(segment_end_offset: int, high_watermark: int) -> bool:
    """Retention never deletes uncommitted records."""
    return segment_end_offset > high_watermark


def keeps_deletion(wall_ms: int, horizon_ms: int) -> bool:
    """Compaction keeps a tombstone until every reader has had the time to see it."""
    return wall_ms < horizon_ms


def keeps_last_sequence() -> bool:
    """Compaction keeps the last batch of a producer, even empty: it determines the next sequence."""
    return True


def keeps_last_offset(next_offset: int, high_watermark: int) -> bool:
    """Compaction keeps the batch that ends at the high watermark: it says where the log ends."""
    return next_offset == high_watermark


def keeps_epoch_starts() -> bool:
    """Compaction keeps the first batch of each leader epoch: a new follower learns where the epoch before it ended."""
    return True


def keeps_epoch_ends() -> bool:
    """Compaction keeps the last batch of each leader epoch: a new follower learns that the epoch existed."""
    return True


def is_cleanable(segment_end_offset: int, last_stable_offset: int) -> bool:
    """Compaction never reads uncommitted records: a record that is truncated later must not replace another one."""
    return segment_end_offset <= last_stable_offset


def cleans_what_is_decided_on_disk(decided_before: int, last_stable_offset: int) -> int:
    """Compaction uses a marker only when it is durable: after a power cut the transaction must not be open again."""
    return min(decided_before, last_stable_offset)


def sync_before_swap(file: File) -> None:
    """Compacted segments are durable before they replace the old ones."""
    file.sync()


def sync_swap(disk: Disk, directory: str) -> None:
    """Each step of a swap is durable before the next one."""
    disk.sync_dir(directory)


def cleaned_after_truncation(cleaned_until: int, end_offset: int) -> int:
    """Records written after a truncation are dirty: a tombstone must not expire before its key was cleaned."""
    return min(cleaned_until, end_offset)


def is_verified(pending: Verification | None, given: Verification) -> bool:
    """A transaction begins here only if its coordinator confirmed it, and nothing ended it since the question."""
    return given is NOT_REQUIRED or given is pending


def accepts_marker_epoch(is_current: bool) -> bool:
    """A delayed marker of an earlier transaction must not end a later one."""
    return is_current


def accepts_coordinator_epoch(sent: int, seen: int) -> bool:
    """A transaction coordinator that lost its partition must not end transactions."""
    return sent >= seen


def holds_back_open_transactions(first_unstable: int, high_watermark: int) -> int:
    """The last stable offset never passes an open transaction, nor a marker that is not committed."""
    return min(first_unstable, high_watermark)


def indexes_aborted(aborted: AbortedTransaction | None) -> AbortedTransaction | None:
    """Readers with read_committed learn which transactions were aborted."""
    return aborted


def rebuilds_transaction_index() -> bool:
    """After an unclean stop the index of aborted transactions is built again from the batches."""
    return True


def truncates_transaction_index() -> bool:
    """A truncation removes the aborted transactions whose markers it removes."""
    return True


def drops_aborted(is_aborted: bool) -> bool:
    """An aborted record must not replace an older record of its key when the log is compacted."""
    return is_aborted


def keeps_marker(has_batches: bool) -> bool:
    """Compaction keeps a marker while any batch of its transaction is left. Without it the transaction would reopen."""
    return has_batches
