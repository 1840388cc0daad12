"""The metadata log on disk: opens, recovers and replays it, and reads the quorum's own files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import ZERO_UUID, DirectoryId, Offset, TopicId, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.base.limits import metadata_batch_bytes_max
from odradek.base.ports import Disk
from odradek.log.checkpoints import encode_topic_id
from odradek.log.config import LogConfig
from odradek.log.folder import LOG, PARTITION_METADATA, offsets_by_suffix
from odradek.log.log import Log
from odradek.log.recovery import LogOpening, open_log
from odradek.metadata.batches import MetadataBatch, read_batches
from odradek.metadata.bootstrap import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_LOG_DIRECTORY,
    VOTERS_CHECKPOINT,
    decode_bootstrap,
    decode_voters,
)
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import NO_OFFSET, ClusterImage, FeatureRange
from odradek.metadata.snapshots import read_snapshot, snapshots_on
from odradek.metadata.voter_history import VoterHistory
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.quorum.election import (
    NEVER_ELECTED,
    QUORUM_STATE_FILE,
    ElectionState,
    decode_configured_voters,
    decode_election,
)
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.voters import Voter, VoterKey, VoterSet

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
_READ_BYTES = 1 << 20

# No retention by time or size: only a snapshot may replace the beginning of the log.
METADATA_LOG_CONFIG = LogConfig(
    max_message_bytes=metadata_batch_bytes_max,
    retention_ms=-1,
    retention_bytes=-1,
    cleanup_policy=frozenset({"delete"}),
)


class MissingBeginning(UnusableDirectory):
    """The log begins after offset 0, and there is no snapshot for its beginning."""


class UnknownPast(UnusableDirectory):
    """The directory has metadata of Kafka that this version of Odradek does not support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMetadata:
    log: Log
    # Oldest first.
    snapshots: list[SnapshotId]
    election: ElectionState
    voters: VoterHistory
    # False if the voters are known only from the first checkpoint.
    voters_in_log: bool
    bootstrap: tuple[Message, ...]


def load_metadata(
    disk: Disk, feed: MetadataFeed, own: Voter, wall_ms: int, segment_bytes: int = METADATA_LOG_CONFIG.segment_bytes
) -> LoadedMetadata:
    """Slow. Opens and recovers the log of a formatted directory. Appends all of it to `feed`, as not yet committed."""
    snapshots = snapshots_on(disk)
    log = _open(disk, wall_ms, segment_bytes, snapshots)
    voters = VoterHistory()
    # The oldest voters: later ones from the log may be truncated again.
    voters.found(NO_OFFSET, _first_voters(disk, own))
    try:
        if snapshots:
            newest = snapshots[-1]
            feed.reset(image_of_snapshot(read_snapshot(disk, newest), newest, feed.image, voters))
            if newest.end_offset > log.log_end_offset or newest.epoch > log.leader_epochs.latest:
                # The node crashed after it fetched a snapshot and before it restarted the log there. A longer log
                # without the snapshot's epoch is from an older leader and was not committed.
                log.truncation.fully_and_start_at(newest.end_offset)
        _feed_log(log, feed, voters)
    except MalformedMessage as unknown:
        raise UnknownPast(f"the metadata log has unknown records: {unknown}") from unknown
    _check_understood(feed.ahead)
    return LoadedMetadata(
        log=log,
        snapshots=snapshots,
        election=_read_election(disk),
        voters=voters,
        voters_in_log=voters.newest_offset > NO_OFFSET,
        bootstrap=decode_bootstrap(disk.read(BOOTSTRAP_CHECKPOINT)),
    )


def write_election(disk: Disk, election: ElectionState) -> None:
    """Slow."""
    disk.replace(f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}", election.encode())


def _open(disk: Disk, wall_ms: int, segment_bytes: int, snapshots: Sequence[SnapshotId]) -> Log:
    """The log starts at the newest segment that begins where a snapshot ends.

    Older segments may be leftovers of a crash. A gap after them is not an error.
    """
    path = f"{METADATA_LOG_DIRECTORY}/{PARTITION_METADATA}"
    if not disk.exists(path):
        disk.replace(path, encode_topic_id(METADATA_TOPIC_ID))
    # No recovery point: all of the log is read anyway, so all of it is checked.
    config = replace(METADATA_LOG_CONFIG, segment_bytes=segment_bytes)
    bases = offsets_by_suffix(disk.listdir(METADATA_LOG_DIRECTORY)).get(LOG, [])
    began = max((snapshot.end_offset for snapshot in snapshots if snapshot.end_offset in bases), default=0)
    opening = LogOpening(topic_partition=METADATA_PARTITION, config=config, wall_ms=wall_ms, log_start_offset=began)
    return open_log(disk, opening)


def _read_election(disk: Disk) -> ElectionState:
    path = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"
    return decode_election(disk.read(path)) if disk.exists(path) else NEVER_ELECTED


def _first_voters(disk: Disk, own: Voter) -> VoterSet:
    if disk.exists(VOTERS_CHECKPOINT):
        return decode_voters(disk.read(VOTERS_CHECKPOINT))
    # Kafka may have static voters, from its configuration. This node's entry gets its directory id and endpoints.
    path = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"
    named = decode_configured_voters(disk.read(path)) if disk.exists(path) else ()
    nowhere = DirectoryId(ZERO_UUID)
    return VoterSet(tuple(own if own.key.voter_id == n else Voter(key=VoterKey(n, nowhere)) for n in named))


def _feed_log(log: Log, feed: MetadataFeed, voters: VoterHistory) -> None:
    if not log.log_start_offset <= feed.end_offset <= log.log_end_offset:
        raise MissingBeginning(
            f"the metadata log goes from offset {log.log_start_offset} to {log.log_end_offset}, "
            f"and the state at {feed.end_offset} is not known"
        )
    while feed.end_offset < log.log_end_offset:
        batches = list(read_batches(_read(log, feed.end_offset)))
        voters.appended(batches)
        feed.appended(batches)


def image_of_snapshot(
    batches: Iterable[MetadataBatch], snapshot: SnapshotId, empty: ClusterImage, voters: VoterHistory
) -> ClusterImage:
    records = [record for batch in batches for record in batch.records]
    last_contained = Offset(snapshot.end_offset - 1)
    voters.appended(MetadataBatch(last_contained, snapshot.epoch, batch.control, []) for batch in batches)
    image, _ = empty.replay(records, last_contained, snapshot.epoch)
    return image


def _check_understood(image: ClusterImage) -> None:
    """Checked before anything is written."""
    for name, level in image.features.items():
        supported = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
        if not supported.min_level <= level <= supported.max_level:
            raise UnknownPast(
                f"{name} is at level {level}; this node supports {supported.min_level} to {supported.max_level}"
            )


def _read(log: Log, offset: Offset) -> bytes:
    region = log.read(offset, _READ_BYTES, log.log_end_offset, whole_first_batch=True)
    if region is None:
        raise InvariantBroken(f"the metadata log ends at {log.log_end_offset} and has nothing at {offset}")
    data = region.read()
    region.release()
    return data
