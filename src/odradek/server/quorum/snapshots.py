"""Metadata snapshots: written when the log has grown enough, served to replicas that are far behind, loaded by them.

Every node writes its own, of committed metadata. Then the log before the last snapshot but one is deleted: a replica
that is only a little behind still finds records.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError, UnusableDirectory
from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.limits import metadata_snapshot_bytes_max, metadata_snapshot_part_bytes
from odradek.base.ports import Disk, Ports
from odradek.log.deleted import DeletedSegment
from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY
from odradek.metadata.image import ClusterImage
from odradek.metadata.metadata_log import METADATA_PARTITION, image_of_snapshot
from odradek.metadata.snapshots import decode_snapshot, encode_snapshot, snapshot_path
from odradek.metadata.voter_history import VoterHistory
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages import p59_fetch_snapshot as wire
from odradek.quorum.effects import FetchSnapshot
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.voters import VoterKey
from odradek.server.network.peers import PeerUnavailable

if TYPE_CHECKING:
    from odradek.server.quorum.metadata_quorum import MetadataQuorum

_log = logging.getLogger(__name__)

PART_TIMEOUT_MS = 5_000
VERSION = 1


class NoSnapshot(Exception):
    """The leader's snapshot could not be loaded."""


class MetadataSnapshots:
    def __init__(
        self, quorum: MetadataQuorum, ports: Ports, *, own: VoterKey, cluster_id: str, bytes_between: int
    ) -> None:
        self._quorum = quorum
        self._ports = ports
        self._own = own
        self._cluster_id = cluster_id
        self._bytes_between = bytes_between
        # Oldest first.
        self.known: list[SnapshotId] = []
        self._log_bytes_covered = 0
        # Removed from the log, but perhaps still on disk. Oldest first, also when the disk failed meanwhile.
        self._superfluous: list[DeletedSegment] = []
        self._writing: asyncio.Task[None] | None = None

    def loaded(self, snapshots: list[SnapshotId]) -> None:
        self.known = snapshots

    # Writing

    def look(self) -> None:
        """More is committed: writes a snapshot if the log has grown enough."""
        grown = self._quorum.log.size_bytes - self._log_bytes_covered
        if grown >= self._bytes_between and self._writing is None and self._quorum.feed.image.transaction is None:
            self._writing = self._ports.spawner.spawn("metadata snapshot", self._write())

    async def idle(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        try:
            await self._write_of(self._quorum.feed.image)
        except OSError as failed:
            # The log still has everything.
            _log.error("the metadata snapshot could not be written: %s", failed)
        finally:
            self._writing = None

    async def _write_of(self, image: ClusterImage) -> None:
        snapshot = SnapshotId(Offset(image.offset + 1), image.epoch)
        voters = self._quorum.voters_at(image.offset)
        size = self._quorum.log.size_bytes
        blocking = self._ports.spawner.blocking
        content = await blocking(encode_snapshot, image, voters, self._ports.clock.wall_ms())
        await blocking(self._ports.disk.replace, snapshot_path(snapshot), content)
        if self.known and self.known[-1] >= snapshot:
            # A later one was loaded from the leader meanwhile.
            return
        self.known.append(snapshot)
        self._quorum.times.wrote_snapshot(len(content))
        _log.info("wrote a metadata snapshot of %d bytes up to offset %d", len(content), image.offset)
        self._log_bytes_covered = size
        if len(self.known) > 1:
            await self._forget_before(self.known[-2])

    async def _forget_before(self, kept: SnapshotId) -> None:
        log, before = self._quorum.log, self._quorum.log.size_bytes
        log.advance_log_start(kept.end_offset)
        self._superfluous += log.retention.delete_expired(self._ports.clock.wall_ms(), self._quorum.core.high_watermark)
        self._log_bytes_covered -= before - log.size_bytes
        gone = [snapshot for snapshot in self.known if snapshot < kept]
        del self.known[: len(gone)]
        await self._ports.spawner.blocking(_remove, self._ports.disk, self._superfluous, gone)
        self._superfluous = []

    # Serving

    def part(self, wanted: wire.FetchSnapshotRequestPartitionSnapshot, max_bytes: int) -> tuple[int, bytes]:
        """The snapshot's size, and bytes from the position asked for."""
        snapshot = SnapshotId(Offset(wanted.snapshot_id.end_offset), LeaderEpoch(wanted.snapshot_id.epoch))
        if snapshot not in self.known:
            raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
        file = self._ports.disk.open(snapshot_path(snapshot))
        try:
            size = file.size()
            if not 0 <= wanted.position < size:
                raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE)
            return size, file.pread(max(0, min(max_bytes, metadata_snapshot_part_bytes)), wanted.position)
        finally:
            file.close()

    # Loading

    async def load(self, effect: FetchSnapshot) -> tuple[ClusterImage, VoterHistory]:
        """The image and voters at its end; the snapshot is durable here. Raises NoSnapshot."""
        content = bytearray()
        size = 1
        while len(content) < size:
            size, part = await self._ask(effect, len(content))
            if not part or size > metadata_snapshot_bytes_max:
                raise NoSnapshot(f"received {len(content)} of {size} bytes")
            content += part
            self._quorum.snapshot_progress(effect.snapshot)
        return await self._ports.spawner.blocking(self._keep, effect.snapshot, bytes(content))

    async def _ask(self, effect: FetchSnapshot, position: int) -> tuple[int, bytes]:
        wanted = wire.FetchSnapshotRequestPartitionSnapshot(
            current_leader_epoch=effect.leader_epoch,
            snapshot_id=wire.SnapshotId(end_offset=effect.snapshot.end_offset, epoch=effect.snapshot.epoch),
            position=position,
            replica_directory_id=self._own.directory_id,
        )
        request = wire.FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._own.voter_id,
            max_bytes=metadata_snapshot_part_bytes,
            topics=[wire.FetchSnapshotRequestTopicSnapshot(name=METADATA_PARTITION.topic, partitions=[wanted])],
        )
        try:
            response: wire.FetchSnapshotResponse = await self._quorum.peers.ask(
                effect.leader_id, request, VERSION, timeout_ms=PART_TIMEOUT_MS, purpose="quorum"
            )
        except PeerUnavailable as lost:
            raise NoSnapshot(str(lost)) from lost
        partitions = [partition for topic in response.topics for partition in topic.partitions]
        if response.error_code or len(partitions) != 1 or partitions[0].error_code:
            raise NoSnapshot("the leader refused")
        return partitions[0].size, partitions[0].unaligned_records

    def _keep(self, snapshot: SnapshotId, content: bytes) -> tuple[ClusterImage, VoterHistory]:
        """Slow. A snapshot that cannot be read is never written: the next start would fail."""
        disk, voters = self._ports.disk, VoterHistory()
        try:
            batches = decode_snapshot(content, snapshot_path(snapshot))
            empty = ClusterImage(cluster_id=self._cluster_id)
            image = image_of_snapshot(batches, snapshot, empty, voters)
        except (MalformedMessage, UnusableDirectory) as broken:
            raise NoSnapshot(str(broken)) from broken
        disk.replace(snapshot_path(snapshot), content)
        return image, voters


def _remove(disk: Disk, segments: list[DeletedSegment], snapshots: list[SnapshotId]) -> None:
    """Slow. No checkpoint says where this log begins, so segments are removed one by one, oldest first.

    Otherwise a power cut could bring back some of them and leave a gap between segments.
    """
    for segment in segments:
        segment.rename()
        disk.sync_dir(METADATA_LOG_DIRECTORY)
        segment.remove()
    for snapshot in snapshots:
        disk.remove(snapshot_path(snapshot))
