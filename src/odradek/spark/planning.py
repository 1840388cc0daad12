"""What a micro-batch reads: how far it goes, what is missing, which task reads which range.

Everything here is a pure function of offsets and options. A replayed micro-batch must give the same tasks the same
records, so `tasks` must not depend on the number of cores, the time or the state of the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from odradek.spark.offsets import Offsets, TopicPartition, names


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """Records of one partition for one task, from `start` (inclusive) to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int
    # The option was "earliest": if retention deletes records before the task runs, that is not a loss.
    from_earliest: bool = False
    # The option was "latest": the task also reads the records that arrived after the range was planned.
    to_latest: bool = False

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The largest possible number of records: compaction and transaction markers leave gaps."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.place} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    topic: str
    time_ms: int

    def __str__(self) -> str:
        return f"{self.topic} at {self.time_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one task reads: its ranges in order, then a row with the time if there is a tick."""

    ranges: tuple[OffsetRange, ...] = ()
    tick: Tick | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.ranges, self.tick) if self.tick else self.ranges))


def admitted(begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows_max: int) -> Offsets:
    """`latest`, limited to about `rows_max` records after `begins`. Each partition gets its share.

    A small partition gets at least one record, so that a busy partition cannot starve it.
    """
    waiting = {place: latest[place] - begins[place] for place in latest if latest[place] > begins[place]}
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(latest)
    return {
        place: begins[place] + max(1, rows_max * waiting[place] // total) if place in waiting else latest[place]
        for place in latest
    }


def waiting_records(begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    return sum(max(0, offset - begins.get(place, 0)) for place, offset in latest.items())


def losses(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[str]:
    """Partitions that are missing in `end` or end before `start`, with what must have happened to their topics."""
    found = []
    if gone := start.keys() - end.keys():
        found.append(f"{names(gone)} no longer exist, or the options no longer select them")
    return found + [
        f"{place} now ends at offset {end[place]}, but this query has reached offset {start[place]}: "
        "the topic was deleted and created again, or the starting offset is past its end"
        for place in sorted(start.keys() & end.keys())
        if end[place] < start[place]
    ]


def ranges(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """One range per partition that has records to read. A partition that is new in `end` is read from its beginning."""
    return [
        OffsetRange(topic=place.topic, partition=place.partition, start=start.get(place, 0), end=end[place])
        for place in sorted(end)
        if end[place] > start.get(place, 0)
    ]


def tasks(whole: Sequence[OffsetRange], *, at_least: int | None, records_max: int | None) -> list[OffsetRange]:
    """The ranges of the tasks: `whole`, split as `maxRecordsPerPartition` and `minPartitions` require."""
    pieces = list(whole)
    if records_max is not None:
        pieces = [piece for each in pieces for piece in divided(each, math.ceil(each.size / records_max))]
    if at_least is not None and len(pieces) < at_least:
        pieces = _spread(pieces, at_least)
    return pieces


def packed(pieces: Sequence[OffsetRange], records_max: int | None) -> list[Task]:
    """One task per piece. With `records_max`, one task takes consecutive pieces with at most that many records."""
    if records_max is None:
        return [Task(ranges=(piece,)) for piece in pieces]
    found: list[list[OffsetRange]] = []
    size = 0
    for piece in pieces:
        if not found or size + piece.size > records_max:
            found.append([])
            size = 0
        found[-1].append(piece)
        size += piece.size
    return [Task(ranges=tuple(each)) for each in found]


def with_tick(tasks: Sequence[Task], tick: Tick) -> list[Task]:
    """Adds the tick to the last task: a separate task would cost more than many records."""
    *before, last = tasks or [Task()]
    return [*before, replace(last, tick=tick)]


def _spread(pieces: list[OffsetRange], at_least: int) -> list[OffsetRange]:
    """About `at_least` pieces of similar size. Only large ranges are split; each small range stays one piece."""
    total = sum(piece.size for piece in pieces)
    large = {piece for piece in pieces if _share(piece.size, total, at_least) > 1}
    large_total = sum(piece.size for piece in large)
    large_parts = max(at_least - (len(pieces) - len(large)), 1)
    return [
        part
        for piece in pieces
        for part in divided(piece, _share(piece.size, large_total, large_parts) if piece in large else 1)
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(1, math.floor(size / max(total, 1) * parts + 0.5))


def divided(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    if parts <= 1:
        return [whole]
    cuts = [whole.start + whole.size * cut // parts for cut in range(parts + 1)]
    return [
        replace(whole, start=left, end=right, to_latest=whole.to_latest and right == whole.end)
        for left, right in pairwise(cuts)
        if right > left
    ]
