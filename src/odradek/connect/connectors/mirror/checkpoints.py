"""`mirror-checkpoints`: the committed offsets of the source's consumer groups, translated for the mirrored topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from odradek.client.records import ClientError
from odradek.connect.connectors.mirror.compacted import CompactedTopic
from odradek.connect.connectors.mirror.config import MirrorCheckpointConfig
from odradek.connect.connectors.mirror.formats import Checkpoint, OffsetSync
from odradek.connect.connectors.mirror.topics import create_compacted, source_admin, target_admin
from odradek.connect.connectors.mirror.translation import Translation
from odradek.connect.interface import Source
from odradek.connect.records import BYTES, Offset, Partition, Record, SourcePlace

Place = tuple[str, int]
_log = logging.getLogger("odradek.connect.mirror")


class MirrorCheckpoints(Source[MirrorCheckpointConfig]):
    """Each group is a partition. Nothing is remembered in its offset: checkpoints are in their own topic."""

    Config: ClassVar[type] = MirrorCheckpointConfig
    converter: ClassVar[str] = "bytes"

    def __init__(self, config: MirrorCheckpointConfig, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._clock = clock
        self._source, self._target = source_admin(config), target_admin(config)
        self._groups: list[str] | None = None
        self._refresh_s = 0.0
        # When each group is looked at next.
        self._due_s: dict[str, float] = {}
        # On the driver: what each group had committed, and the groups to look at once more.
        self._seen: dict[str, object] = {}
        self._moving: set[str] = set()
        self._translating: _Translating | None = None

    # --- on the driver

    def partitions(self) -> Sequence[Partition]:
        now, config = self._clock(), self.config
        if self._groups is None:
            create_compacted(self._target, config.names.checkpoints(), config.checkpoints_topic_replication_factor)
        if self._groups is None or (config.refresh_groups_enabled and now >= self._refresh_s):
            self._groups = [group for group in self._source.groups() if group in config.group_filter]
            self._refresh_s = now + config.refresh_groups_interval_seconds
        return [{"group": group} for group in self._groups]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        """Whether the group has moved since the last look, or the one before: offset syncs may come after it."""
        group = str(partition["group"])
        if not self._is_due(group):
            return False
        committed = self._source.committed(group)
        has_moved = self._seen.get(group) != committed
        is_moving = has_moved or group in self._moving
        self._seen[group] = committed
        (self._moving.add if has_moved else self._moving.discard)(group)
        return is_moving

    def _is_due(self, group: str) -> bool:
        now, config = self._clock(), self.config
        if now < self._due_s.get(group, 0.0):
            return False
        wanted = [config.emit_checkpoints_interval_seconds] if config.emit_checkpoints_enabled else []
        wanted += [config.sync_group_offsets_interval_seconds] if config.sync_group_offsets_enabled else []
        self._due_s[group] = now + min(wanted, default=float("inf"))
        return bool(wanted)

    # --- in a task

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record]:  # noqa: ARG002
        group = str(partition["group"])
        if not self._is_due(group):
            return
        if self._translating is None:
            self._translating = _Translating(self.config)
        translated = self._translating.checkpoints(group, self._source.committed_with_metadata(group))
        if self.config.emit_checkpoints_enabled:
            at_ms = time.time_ns() // 1_000_000
            for checkpoint in translated:
                if self._translating.is_new(checkpoint):
                    yield self._record(checkpoint, at_ms, SourcePlace(partition, {"offset": 0}))
        if self.config.sync_group_offsets_enabled:
            self._commit_in_target(group, translated)

    def _record(self, checkpoint: Checkpoint, at_ms: int, place: SourcePlace) -> Record:
        key, value = checkpoint.encoded()
        return Record(
            topic=self.config.names.checkpoints(),
            key=key,
            value=value,
            key_schema=BYTES,
            value_schema=BYTES,
            timestamp_ms=at_ms,
            partition=0,
            place=place,
        )

    def _commit_in_target(self, group: str, translated: Sequence[Checkpoint]) -> None:
        """Moves the target's group forward, never back, and only while it has no members."""
        known = self._target.committed(group)
        wanted = {(each.topic, each.partition): each.downstream for each in translated}
        wanted = {place: offset for place, offset in wanted.items() if offset > known.get(place, -1)}
        existing = self._target.partition_counts() if wanted else {}
        wanted = {place: offset for place, offset in wanted.items() if place[1] < existing.get(place[0], 0)}
        if not wanted:
            return
        if self._target.group_members(group):
            _log.info("the group %s has members in the target: its offsets there are left alone", group)
            return
        try:
            self._target.set_committed(group, wanted)
        except ClientError as refused:
            # A member may have joined in between.
            _log.warning("the offsets of group %s were not set in the target: %s", group, refused)

    def close(self) -> None:
        if self._translating is not None:
            self._translating.close()


class _Translating:
    """The offset syncs and the checkpoints that were written so far."""

    def __init__(self, config: MirrorCheckpointConfig) -> None:
        self._config = config
        self._topics, self._names = config.topic_filter, config.names
        self._translate = Translation()
        self._syncs = CompactedTopic(config.offset_syncs_clients, config.offset_syncs_topic)
        target = {**config.target_clients, "bootstrap.servers": config.target_cluster_bootstrap_servers}
        self._written = CompactedTopic(target, config.names.checkpoints())
        self._last: dict[tuple[str, str, int], Checkpoint] = {}
        for key, value in self._written.news():
            self._remember(Checkpoint.decoded(key, value))

    def checkpoints(self, group: str, committed: Mapping[Place, tuple[int, str]]) -> list[Checkpoint]:
        """The group's offsets first, then the syncs: so no sync is older than the offsets."""
        for key, value in self._syncs.news():
            self._translate.learn(OffsetSync.decoded(key, value))
        found = []
        for (topic, index), (upstream, metadata) in sorted(committed.items()):
            if topic not in self._topics and not self._names.is_heartbeats(topic):
                continue
            downstream = self._translate((topic, index), upstream)
            if downstream is not None:
                remote = self._names.in_target(topic)
                found.append(Checkpoint(group, remote, index, upstream, downstream, metadata))
        return found

    def is_new(self, checkpoint: Checkpoint) -> bool:
        """MirrorMaker 2's rule: forward in the target, or back in the source."""
        last = self._last.get((checkpoint.group, checkpoint.topic, checkpoint.partition))
        if last is not None and checkpoint.upstream >= last.upstream and checkpoint.downstream <= last.downstream:
            return False
        self._remember(checkpoint)
        return True

    def _remember(self, checkpoint: Checkpoint) -> None:
        self._last[checkpoint.group, checkpoint.topic, checkpoint.partition] = checkpoint

    def close(self) -> None:
        self._syncs.close()
        self._written.close()
