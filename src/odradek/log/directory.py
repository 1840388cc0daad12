"""One data directory: the logs in it, their checkpoints, and the marker of a clean stop.

Run methods marked *slow* outside the event loop, one at a time. A truncation also writes checkpoints. A lock makes
concurrent writers wait, so that the checkpoints written last always match the logs, never an older state of them.

Checkpoints identify a log by name. A topic that is deleted and created again has the same name as before. So TOPIC_IDS,
a checkpoint of our own, records the topic ids that the other checkpoints refer to. It is written after them: an entry
of another checkpoint may belong to a newer topic than TOPIC_IDS says, never to an older one. A log ignores checkpoint
entries of another topic id.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.base.ports import Disk, Rng, Volume
from odradek.log import safeguards
from odradek.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    TOPIC_IDS,
    decode_clean_shutdown,
    decode_offsets,
    decode_topic_id,
    decode_topic_ids,
    encode_clean_shutdown,
    encode_offsets,
    encode_topic_id,
    encode_topic_ids,
    read_checkpoint,
)
from odradek.log.config import LogConfig
from odradek.log.deleted import DeletedSegment
from odradek.log.durability import Durability
from odradek.log.folder import PARTITION_METADATA, Folder
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log import Log
from odradek.log.producers import Producers
from odradek.log.recovery import LogOpening, open_log
from odradek.log.reopening import probe, reopen
from odradek.log.segment import Segment
from odradek.log.segments import Segments

story = logging.getLogger(__name__)

METADATA_LOG = TopicPartition("__cluster_metadata", 0)  # is stored here, belongs to the quorum
LOG_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
DELETE = "-delete"
STRAY = "-stray"
NAME_CHARS_MAX = 255


class LogDirectory:
    def __init__(self, disk: Disk, rng: Rng) -> None:
        self.disk = disk
        self._rng = rng
        self.logs: dict[TopicPartition, Log] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}  # as last written to disk
        self._cleaned: dict[TopicPartition, int] = {}  # how far each log was compacted, as on disk
        self._topic_ids: dict[TopicPartition, TopicId] = {}  # that the checkpoints on disk refer to
        # Logs removed since the checkpoints were last written: the checkpoints may still refer to them.
        self._gone: dict[tuple[TopicPartition, TopicId | None], None] = {}
        self._reserved: Log | None = None  # a failed log that is being reopened
        self._writing = threading.RLock()  # held from reading the logs until their state is on disk
        self.stopped_cleanly = False
        self.previous_broker_epoch = -1  # of the process that stopped cleanly

    def load(self, config_of: Callable[[str], LogConfig], wall_ms: int) -> None:
        """Slow. Open every log. Remove the directories that were marked deleted."""
        marker = read_checkpoint(self.disk, CLEAN_SHUTDOWN, decode_clean_shutdown)
        if marker is not None:
            self.stopped_cleanly, self.previous_broker_epoch = True, marker
            safeguards.forgets_clean_stop_before_loading(self.disk, CLEAN_SHUTDOWN)
        if not self.stopped_cleanly:
            # Data of a killed process may be in the page cache only: make it durable before anything relies on it.
            safeguards.sync_everything(self.disk)
        recovery_points = read_checkpoint(self.disk, RECOVERY_POINTS, decode_offsets) or {}
        log_starts = read_checkpoint(self.disk, LOG_STARTS, decode_offsets) or {}
        self.high_watermarks = read_checkpoint(self.disk, HIGH_WATERMARKS, decode_offsets) or {}
        self._cleaned = read_checkpoint(self.disk, CLEANED_OFFSETS, decode_offsets) or {}
        # None: the checkpoints match the logs, as after a clean stop (also of Kafka), or when only Kafka ran here.
        topic_ids = None if self.stopped_cleanly else read_checkpoint(self.disk, TOPIC_IDS, decode_topic_ids)
        for topic_partition in self._names_of_logs():
            spoken_of = topic_ids is None or self._is_spoken_of(topic_partition, topic_ids)
            if not spoken_of:
                for offsets in (recovery_points, log_starts, self.high_watermarks):
                    offsets.pop(topic_partition, None)
            opening = LogOpening(
                topic_partition=topic_partition,
                config=config_of(topic_partition.topic),
                wall_ms=wall_ms,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=log_starts.get(topic_partition, 0),
                cleaned_until=self._cleaned.get(topic_partition) if spoken_of else None,
                from_kafka=topic_ids is None,
                stopped_cleanly=self.stopped_cleanly and topic_partition in recovery_points,
                disk_synced=True,
                jitter=self._rng.below,
                persist_checkpoints=self.write_checkpoints,
            )
            log = self.logs[topic_partition] = open_log(self.disk, opening)
            if spoken_of and log.topic_id is not None:
                self._topic_ids[topic_partition] = log.topic_id
        if topic_ids is None and not self.stopped_cleanly:
            self._pass_gaps()
        self._write_cleaned()
        if self._topic_ids != topic_ids:
            self.disk.replace(TOPIC_IDS, encode_topic_ids(self._topic_ids))

    def _pass_gaps(self) -> None:
        """Raise the recovery points over the gaps that a killed Kafka left: above ours, a gap means data loss."""
        for log in self.logs.values():
            log.syncing.whole()
        self._write_recovery_points()

    def _names_of_logs(self) -> Iterator[TopicPartition]:
        """The logs in this directory, without the metadata log. Directories that were marked deleted are removed."""
        for name in self.disk.listdir(""):
            if name.endswith(DELETE):
                self.disk.remove_tree(name)
                continue
            parsed = LOG_NAME.fullmatch(name)
            if parsed is not None:
                topic_partition = TopicPartition(parsed["topic"], int(parsed["partition"]))
                if topic_partition != METADATA_LOG:
                    yield topic_partition

    def _is_spoken_of(self, topic_partition: TopicPartition, topic_ids: Mapping[TopicPartition, TopicId]) -> bool:
        """Whether the checkpoints refer to this log, and not to another topic with the same name."""
        here = read_checkpoint(self.disk, f"{topic_partition}/{PARTITION_METADATA}", decode_topic_id)
        return safeguards.is_spoken_of(topic_ids.get(topic_partition), here)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def volume(self) -> Volume:
        """Slow. Raises OSError when the disk does not answer."""
        return self.disk.volume()

    def create_log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig, wall_ms: int) -> Log:
        """The log of the partition. A new one is created if needed, and is durable after its first sync.

        A log with the same name but another topic id, or without one, is put aside. It belongs to a topic that was
        deleted while this node was down, or it was never synced. Raises OSError when the log cannot be created now.
        """
        log = self.logs.get(topic_partition)
        if log is not None and log.topic_id == topic_id:
            log.configure(config)
            return log
        if self._reserved is not None and self._reserved.topic_partition == topic_partition:
            raise OSError(errno.EBUSY, "a failed log with this name is being reopened", str(topic_partition))
        if log is not None:
            self.mark_stray(topic_partition)
        if safeguards.returns_as_another((topic_partition, topic_id) in self._gone):
            self._stop_speaking_of(topic_partition)
        folder = Folder(self.disk, str(topic_partition))
        self.disk.make_dir(folder.path)
        durability = Durability(folder, 0, is_new=True)
        folder.write(PARTITION_METADATA, encode_topic_id(topic_id))
        durability.also_sync(PARTITION_METADATA)
        log = self.logs[topic_partition] = Log(
            folder,
            topic_partition,
            config,
            Segments([Segment.create(folder, 0, config, wall_ms)]),
            topic_id=topic_id,
            log_start_offset=0,
            log_end_offset=0,
            durability=durability,
            leader_epochs=LeaderEpochs(),
            snapshots=[],
            producers=Producers(),
            jitter=self._rng.below,
            persist_checkpoints=self.write_checkpoints,
        )
        return log

    @contextlib.contextmanager
    def reserving(self, failed: Log) -> Iterator[None]:
        """Use around `reopen` and `succeed`: they find files by name, so no other code may create or rename any."""
        self._reserved = failed
        try:
            yield
        finally:
            self._reserved = None

    def is_reserved(self, log: Log) -> bool:
        return log is self._reserved

    def reopen(self, failed: Log, wall_ms: int) -> Log:
        """Slow. Open the files of a failed log again, for `succeed`. Raises OSError while the disk still fails."""
        opening = LogOpening(
            topic_partition=failed.topic_partition,
            config=failed.config,
            wall_ms=wall_ms,
            directory=failed.directory,  # may have been renamed, because its topic was deleted
            recovery_point=failed.recovery_point,
            log_start_offset=failed.log_start_offset,
            cleaned_until=failed.cleaned_until,
            jitter=self._rng.below,
            persist_checkpoints=self.write_checkpoints,
        )
        return reopen(self.disk, failed, opening)

    def succeed(self, failed: Log, reopened: Log) -> None:
        self.logs[failed.topic_partition] = reopened
        reopened.configure(failed.config)  # may have changed during the reopening
        failed.release()

    def probe(self) -> None:
        """Slow. Raises OSError while nothing can be written durably here."""
        probe(self.disk)

    def mark_deleted(self, topic_partition: TopicPartition) -> str:
        """Hide the log at once and return its new directory name, for `remove_deleted`. A restart also removes it."""
        return self._put_aside(topic_partition, DELETE)

    def remove_deleted(self, directory: str) -> None:
        """Slow."""
        self.disk.sync_dir("")
        self.disk.remove_tree(directory)

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """Keep the files on disk for an operator to inspect; the broker no longer uses them."""
        directory = self._put_aside(topic_partition, STRAY)
        story.warning("%s is no longer in this cluster: its files are kept in %s", topic_partition, directory)
        return directory

    def retire(self, deleted: Sequence[DeletedSegment]) -> None:
        """Slow. The first of two steps that remove expired segments; the second is `DeletedSegment.remove`."""
        if deleted:
            for directory in dict.fromkeys(segment.folder.path for segment in deleted):
                with contextlib.suppress(FileNotFoundError):  # the whole topic was deleted meanwhile
                    safeguards.sync_names(self.disk, directory)  # the log now begins with the segments that stay
            self.write_checkpoints()
            for segment in deleted:
                segment.rename()

    def write_checkpoints(self) -> None:
        """Slow. Called periodically, so that recovery after a crash has little to read."""
        with self._writing:
            # Before the writes: topics may be deleted and created during them.
            gone = list(self._gone)
            topic_ids = self._ids_of_logs()
            self._write_recovery_points()
            self._write_log_starts()
            self._write_cleaned()
            if topic_ids != self._topic_ids:
                self._forget_high_watermarks(topic_ids)
                self.disk.replace(TOPIC_IDS, encode_topic_ids(topic_ids))
                self._topic_ids = topic_ids
            for name in gone:
                self._gone.pop(name, None)

    def _ids_of_logs(self) -> dict[TopicPartition, TopicId]:
        return {name: log.topic_id for name, log in list(self.logs.items()) if log.topic_id is not None}

    def _stop_speaking_of(self, topic_partition: TopicPartition) -> None:
        """Slow and rare: a replica returns to this broker shortly after it left. The checkpoint entries of this topic
        refer to the log that was removed."""
        with self._writing:
            self._topic_ids = {name: known for name, known in self._topic_ids.items() if name != topic_partition}
            self.disk.replace(TOPIC_IDS, encode_topic_ids(self._topic_ids))

    def write_high_watermarks(self, high_watermarks: Mapping[Log, int]) -> None:
        """Slow. Only for logs that are still here: a new topic may have taken the name of a log meanwhile."""
        with self._writing:
            if self._ids_of_logs() != self._topic_ids:
                self.write_checkpoints()  # drops the entries of names that now belong to other topics
            self._replace_high_watermarks(
                {
                    log.topic_partition: offset
                    for log, offset in high_watermarks.items()
                    if self.logs.get(log.topic_partition) is log
                }
            )

    def close(self, broker_epoch: int) -> None:
        """Slow. The next start scans nothing, unless a log could not be closed."""
        whole = _closing(self.logs.values(), Log.write_everything)
        if any(log.has_to_sync for log in whole):
            safeguards.sync_everything(self.disk)
        # After the sync: if an epoch checkpoint exists, recovery trusts that the segment names are durable.
        if any(log.leader_epochs.changed for log in whole):
            whole = _closing(whole, Log.write_epochs)
            safeguards.sync_everything(self.disk)
        for log in whole:
            log.synced_with_everything()
            log.release()
        self.write_checkpoints()
        if len(whole) == len(self.logs):
            self.disk.replace(CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))
            # Kafka may use this directory next. It ignores this file, and its checkpoints always match its logs.
            self.disk.remove(TOPIC_IDS)

    def _forget_high_watermarks(self, topic_ids: Mapping[TopicPartition, TopicId]) -> None:
        """Drop the entries whose name now has another topic id: they may be too high. Too low is always safe."""
        known = {name for name, topic_id in topic_ids.items() if topic_id == self._topic_ids.get(name)}
        self._replace_high_watermarks({name: offset for name, offset in self.high_watermarks.items() if name in known})

    def _replace_high_watermarks(self, high_watermarks: dict[TopicPartition, int]) -> None:
        self.disk.replace(HIGH_WATERMARKS, encode_offsets(high_watermarks))
        self.high_watermarks = high_watermarks

    def _put_aside(self, topic_partition: TopicPartition, suffix: str) -> str:
        log = self.logs.pop(topic_partition)
        log.release()
        self._gone[topic_partition, log.topic_id] = None
        suffix = f".{self._rng.bytes(16).hex()}{suffix}"
        directory = str(topic_partition)[: NAME_CHARS_MAX - len(suffix)] + suffix
        self.disk.rename(log.directory, directory)
        log.moved_to(directory)
        return directory

    def _write_recovery_points(self) -> None:
        self._write(RECOVERY_POINTS, lambda log: log.recovery_checkpoint)

    def _write_log_starts(self) -> None:
        self._write(LOG_STARTS, lambda log: log.log_start_offset)

    def _write_cleaned(self) -> None:
        cleaned = {name: log.cleaned_until for name, log in list(self.logs.items()) if log.cleaned_until is not None}
        if cleaned != self._cleaned:
            self.disk.replace(CLEANED_OFFSETS, encode_offsets(cleaned))
            self._cleaned = cleaned

    def _write(self, checkpoint: str, offset_of: Callable[[Log], int]) -> None:
        offsets = {topic_partition: offset_of(log) for topic_partition, log in list(self.logs.items())}
        self.disk.replace(checkpoint, encode_offsets(offsets))


def _closing(logs: Iterable[Log], close: Callable[[Log], None]) -> list[Log]:
    """The logs for which `close` succeeded."""
    whole = []
    for log in logs:
        try:
            close(log)
            whole.append(log)
        except KafkaError as failure:
            story.error("%s could not be closed: %s", log.name, failure)
            log.release()
    return whole
