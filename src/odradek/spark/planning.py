"""What a micro-batch reads: how far it goes, what is missing, which task reads which range.

Everything here is a pure function of offsets and options. A replayed micro-batch must give the same tasks the same
records, so neither the number of cores nor the time nor the state of the cluster may have a say in `tasks`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from odradek.spark.offsets import Offsets, TopicPartition, names


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """Records of one partition for one task: from `start` up to but without `end`."""

    topic: str
    partition: int
    start: int
    end: int
    # Asked for was "earliest": records that retention takes away before the task runs are no loss.
    from_earliest: bool = False
    # Asked for was "latest": the task reads what has come since the range was planned as well.
    to_latest: bool = False

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """At most so many records: compaction and transaction markers leave gaps."""
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
    """What one task reads: one range after the other, and a row that tells the time if there is a tick."""

    ranges: tuple[OffsetRange, ...] = ()
    tick: Tick | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.ranges, self.tick) if self.tick else self.ranges))


def admitted(begins: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows_max: int) -> Offsets:
    """`latest`, but no more than about `rows_max` records from `begins`: each partition gets its share of them.

    A small partition gets one record at least, or a busy one would starve it.
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
    """What must have happened to the topics for a query to come from `start` to `end`, if it was not just reading."""
    found = []
    if gone := start.keys() - end.keys():
        found.append(f"{names(gone)} no longer exist, or are no longer asked for")
    return found + [
        f"{place} now ends at offset {end[place]}, before offset {start[place]} where this query stands: "
        "the topic was deleted and created again, or the query was told to start past its end"
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
    """The ranges of the tasks: `whole`, divided where `maxRecordsPerPartition` or `minPartitions` ask for it."""
    pieces = list(whole)
    if records_max is not None:
        pieces = [piece for each in pieces for piece in divided(each, math.ceil(each.size / records_max))]
    if at_least is not None and len(pieces) < at_least:
        pieces = _spread(pieces, at_least)
    return pieces


def packed(pieces: Sequence[OffsetRange], records_max: int | None) -> list[Task]:
    """A task per piece, or for as many consecutive pieces as together have at most `records_max` records."""
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
    """The last task reads the tick too: a task of its own would cost more than many records."""
    *before, last = tasks or [Task()]
    return [*before, replace(last, tick=tick)]


def _spread(pieces: list[OffsetRange], at_least: int) -> list[OffsetRange]:
    """About `at_least` pieces of similar size; small ranges stay whole and do not count in the share of large ones."""
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
