"""`mirror-heartbeats`: a record each second, which shows in a mirrored cluster that the mirror works, and how late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from odradek.connect.connectors.mirror.config import MirrorHeartbeatConfig
from odradek.connect.connectors.mirror.formats import Heartbeat
from odradek.connect.connectors.mirror.names import HEARTBEATS
from odradek.connect.connectors.mirror.topics import create_compacted, target_admin
from odradek.connect.interface import Source
from odradek.connect.records import BYTES, Offset, Partition, Record, SourcePlace

WAIT_S = 0.1


class MirrorHeartbeats(Source[MirrorHeartbeatConfig]):
    Config: ClassVar[type] = MirrorHeartbeatConfig
    converter: ClassVar[str] = "bytes"

    def __init__(
        self,
        config: MirrorHeartbeatConfig,
        clock: Callable[[], float] = time.time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config)
        self._clock = clock
        self._rest = rest
        self._is_created = False

    def partitions(self) -> Sequence[Partition]:
        config = self.config
        if not config.emit_heartbeats_enabled:
            return []
        if not self._is_created:
            create_compacted(target_admin(config), HEARTBEATS, config.heartbeats_topic_replication_factor)
            self._is_created = True
        return [{"sourceClusterAlias": config.source_cluster_alias, "targetClusterAlias": config.target_cluster_alias}]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        return True

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:  # noqa: ARG002
        config = self.config
        due_s = self._clock()
        while True:
            now = self._clock()
            if now < due_s:
                self._rest(min(WAIT_S, due_s - now))
                yield None
                continue
            due_s = max(due_s + config.emit_heartbeats_interval_seconds, now)
            at_ms = int(now * 1000)
            key, value = Heartbeat(config.source_cluster_alias, config.target_cluster_alias, at_ms).encoded()
            yield Record(
                topic=HEARTBEATS,
                key=key,
                value=value,
                key_schema=BYTES,
                value_schema=BYTES,
                timestamp_ms=at_ms,
                partition=0,
                place=SourcePlace(partition, {"offset": 0}),
            )
