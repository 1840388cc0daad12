"""The metadata log on disk: opened, recovered and replayed into an image, with the quorum's own files beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import ZERO_UUID, DirectoryId, Offset, TopicId, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.base.limits import metadata_batch_bytes_max
from odradek.base.ports import Disk
from odradek.log.checkpoints import encode_topic_id
from odradek.log.config import LogConfig
from odradek.log.folder import PARTITION_METADATA
from odradek.log.log import Log
from odradek.log.recovery import LogOpening, open_log
from odradek.metadata.batches import MetadataBatch, read_batches
from odradek.metadata.bootstrap import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_LOG_DIRECTORY,
    VOTERS_CHECKPOINT,
    BrokenCheckpoint,
    decode_bootstrap,
    decode_voters,
)
from odradek.metadata.features import SUPPORTED_FEATURES
from odradek.metadata.image import ClusterImage, FeatureRange
from odradek.metadata.snapshots import newest_snapshot, read_snapshot
from odradek.protocol.control_records import VotersRecord
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.quorum.election import (
    NEVER_ELECTED,
    QUORUM_STATE_FILE,
    ElectionState,
    decode_configured_voters,
    decode_election,
)
from odradek.quorum.voters import Voter, VoterKey, VoterSet, voters_from_record

TRANSACTION_TOPIC = "__transaction_state"
METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
_READ_BYTES = 1 << 20

# Nothing is ever deleted by time or size: only a snapshot may replace the log's beginning, and we write none.
METADATA_LOG_CONFIG = LogConfig(
    max_message_bytes=metadata_batch_bytes_max,
    retention_ms=-1,
    retention_bytes=-1,
    cleanup_policy=frozenset({"delete"}),
)


class MissingBeginning(UnusableDirectory):
    """The log begins after offset 0, and no snapshot says what was true before."""


class UnknownPast(UnusableDirectory):
    """Kafka did something in this directory that this version of Odradek does not understand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMetadata:
    log: Log
    # Everything in the log, committed or not: a new leader commits what it finds.
    image: ClusterImage
    election: ElectionState
    voters: VoterSet
    # False while the voters are known from the first checkpoint alone.
    voters_in_log: bool
    bootstrap: tuple[Message, ...]


def load_metadata(disk: Disk, empty: ClusterImage, own: Voter, wall_ms: int) -> LoadedMetadata:
    """Slow. Opens and recovers the log of a formatted directory and replays all of it on `empty`."""
    log = _open(disk, wall_ms)
    try:
        image, voters = _replay(disk, log, empty)
    except MalformedMessage as unknown:
        raise UnknownPast(f"the metadata log holds something unknown: {unknown}") from unknown
    _check_understood(image)
    return LoadedMetadata(
        log=log,
        image=image,
        election=_read_election(disk),
        voters=voters or _first_voters(disk, own),
        voters_in_log=voters is not None,
        bootstrap=decode_bootstrap(disk.read(BOOTSTRAP_CHECKPOINT)),
    )


def write_election(disk: Disk, election: ElectionState) -> None:
    """Slow."""
    disk.replace(f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}", election.encode())


def _open(disk: Disk, wall_ms: int) -> Log:
    path = f"{METADATA_LOG_DIRECTORY}/{PARTITION_METADATA}"
    if not disk.exists(path):
        disk.replace(path, encode_topic_id(METADATA_TOPIC_ID))
    # Without a recovery point: all of it is read anyway, so all of it is checked.
    return open_log(disk, LogOpening(topic_partition=METADATA_PARTITION, config=METADATA_LOG_CONFIG, wall_ms=wall_ms))


def _read_election(disk: Disk) -> ElectionState:
    path = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"
    return decode_election(disk.read(path)) if disk.exists(path) else NEVER_ELECTED


def _first_voters(disk: Disk, own: Voter) -> VoterSet:
    if disk.exists(VOTERS_CHECKPOINT):
        return decode_voters(disk.read(VOTERS_CHECKPOINT))
    # Kafka's voters may be named in its configuration alone. If that is this node, its name comes into the log now.
    path = f"{METADATA_LOG_DIRECTORY}/{QUORUM_STATE_FILE}"
    named = decode_configured_voters(disk.read(path)) if disk.exists(path) else ()
    if not named:
        raise BrokenCheckpoint("nothing says who votes: format the directory again")
    nowhere = DirectoryId(ZERO_UUID)
    return VoterSet(tuple(own if own.key.voter_id == n else Voter(key=VoterKey(n, nowhere)) for n in named))


def _replay(disk: Disk, log: Log, image: ClusterImage) -> tuple[ClusterImage, VoterSet | None]:
    voters: VoterSet | None = None
    snapshot = newest_snapshot(disk)
    if snapshot is not None:
        image, voters = _replay_batches(read_snapshot(disk, snapshot), image, voters)
        image = image.passed(Offset(snapshot.end_offset - 1), snapshot.epoch)
    following = image.offset + 1
    if not log.log_start_offset <= following <= log.log_end_offset:
        raise MissingBeginning(
            f"the metadata log goes from offset {log.log_start_offset} to {log.log_end_offset}, "
            f"and what was true at {following} is not known"
        )
    while image.offset + 1 < log.log_end_offset:
        image, voters = _replay_batches(read_batches(_read(log, Offset(image.offset + 1))), image, voters)
    return image, voters


def _replay_batches(
    batches: Iterable[MetadataBatch], image: ClusterImage, voters: VoterSet | None
) -> tuple[ClusterImage, VoterSet | None]:
    records: list[Message] = []
    for batch in batches:
        records += batch.records
        for control in batch.control:
            if isinstance(control, VotersRecord):
                voters = voters_from_record(control)
    # One replay for the whole stretch: replaying batch by batch would copy a shard for each.
    image, _ = image.replay(records, batch.last_offset, batch.leader_epoch)
    return image, voters


def _check_understood(image: ClusterImage) -> None:
    """Before anything is written."""
    for name, level in image.features.items():
        supported = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
        if not supported.min_level <= level <= supported.max_level:
            raise UnknownPast(
                f"{name} is at level {level}; this node knows {supported.min_level} to {supported.max_level}"
            )
    if TRANSACTION_TOPIC in image.topics:
        raise UnknownPast(
            f"there is a topic {TRANSACTION_TOPIC}: records of aborted transactions would be shown as committed"
        )


def _read(log: Log, offset: Offset) -> bytes:
    region = log.read(offset, _READ_BYTES, log.log_end_offset, whole_first_batch=True)
    if region is None:
        raise InvariantBroken(f"the metadata log ends at {log.log_end_offset} and has nothing at {offset}")
    data = region.read()
    region.release()
    return data
