"""Writes offset syncs while mirroring: where records of the source are in the mirrored topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import Producer

from odradek.client.configuring import client_logger
from odradek.connect.connectors.mirror.formats import OffsetSync

Place = tuple[str, int]
_log = logging.getLogger("odradek.connect.mirror")

CLOSE_S = 5.0
NOTHING = -2


@dataclass(slots=True)
class _Partition:
    """`pending` are delivered records whose transaction is open: upstream, downstream, and whether it follows a gap."""

    seen: int = NOTHING
    chosen: int = NOTHING
    gaps: set[int] = field(default_factory=set)
    pending: list[tuple[int, int, bool]] = field(default_factory=list)
    downstream: int = NOTHING
    synced: int | None = None
    # It is synced when the partition becomes quiet: then groups at its end are translated exactly.
    last: tuple[int, int] | None = None

    def is_due(self, downstream: int, *, after_gap: bool, lag_max: int) -> bool:
        """MirrorMaker 2's rule."""
        is_behind = self.synced is None or downstream - (self.synced + 1) >= lag_max
        is_due = is_behind or after_gap or downstream < self.downstream
        self.downstream = downstream
        if is_due:
            self.synced = downstream
        return is_due


class SyncWriter:
    """Chooses the records whose new offsets must be known, and writes the offset syncs that are due."""

    def __init__(self, clients: Mapping[str, str], topic: str, lag_max: int) -> None:
        self._topic = topic
        self._lag_max = lag_max
        self._partitions: dict[Place, _Partition] = {}
        self._producer = Producer({"linger.ms": "50", **clients}, logger=client_logger())

    def wants(self, place: Place, offset: int, *, is_last: bool) -> bool:
        """Whether the new offset of this record must be known: after gaps, after `lag_max` others, and the last one."""
        partition = self._of(place)
        is_gap = offset != partition.seen + 1
        partition.seen = offset
        if is_gap:
            partition.gaps.add(offset)
        is_due = is_gap or offset - partition.chosen > self._lag_max
        if is_due:
            partition.chosen = offset
        return is_due or is_last

    def delivered(self, place: Place, upstream: int, downstream: int) -> None:
        partition = self._of(place)
        partition.pending.append((upstream, downstream, upstream in partition.gaps))
        partition.gaps.discard(upstream)

    def committed(self, place: Place) -> None:
        """The records that were delivered are durable."""
        partition = self._of(place)
        for upstream, downstream, after_gap in sorted(partition.pending):
            if partition.is_due(downstream, after_gap=after_gap, lag_max=self._lag_max):
                self._send(place, upstream, downstream)
                partition.last = None
            else:
                partition.last = upstream, downstream
        partition.pending.clear()
        self._producer.poll(0)

    def quiet(self, place: Place) -> None:
        """No more records for now."""
        partition = self._of(place)
        if partition.last is not None and not partition.pending:
            self._send(place, *partition.last)
            partition.last = None

    def close(self) -> None:
        for place in self._partitions:
            self.quiet(place)
        self._producer.flush(CLOSE_S)

    def _send(self, place: Place, upstream: int, downstream: int) -> None:
        key, value = OffsetSync(*place, upstream, downstream).encoded()
        try:
            self._producer.produce(self._topic, value, key, 0)
        except BufferError:
            # A sync that is missing makes a translation less exact, never wrong.
            _log.warning("offset syncs cannot be written to %s fast enough", self._topic)

    def _of(self, place: Place) -> _Partition:
        return self._partitions.setdefault(place, _Partition())
