"""Counts the dead letters of applications: their records, because offsets also count the markers of transactions.

Each turn reads what was written since the last one, within a budget. As long as something is not counted, the figure
is an upper bound: the records that were counted, and one for each offset of the rest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.base.limits import MIB
from odradek.client.wire import NoAnswer
from odradek.console.applications.seen import Letters
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Snapshot, Topic
from odradek.console.messages.reading import CannotRead
from odradek.console.messages.source import Source

RECENT_S = 300.0
# Read in one turn, of all topics together.
TURN_BYTES = 4 * MIB
# The bytes of a topic beyond this are not counted.
TOPIC_BYTES_MAX = 64 * MIB


@dataclass(slots=True)
class _Partition:
    start: int  # the log start when counting began
    next: int  # the records before it are counted
    end: int
    fresh: int  # records from here on came after the console knew the topic
    seen: int  # the log end of the last reading that was complete: what is left then belongs to open transactions
    records: int = 0
    size_bytes: int = 0

    @property
    def uncounted(self) -> int:
        return 0 if self.seen == self.end else self.end - self.next


@dataclass(slots=True)
class _Counted:
    """A topic. `new` has the times at which records were seen that had come since the last turn, and their numbers."""

    topic_id: str
    partitions: dict[int, _Partition] = field(default_factory=dict)
    new: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def is_too_large(self) -> bool:
        return sum(each.size_bytes for each in self.partitions.values()) >= TOPIC_BYTES_MAX

    def learn(self, starts: Sequence[int], ends: Sequence[int], now_s: float) -> None:
        for number, (start, end) in enumerate(zip(starts, ends, strict=False)):
            if min(start, end) < 0:
                continue
            known = self.partitions.get(number)
            if known is None or end < known.end:
                self.partitions[number] = _Partition(start=start, next=start, end=end, fresh=end, seen=start)
                continue
            if self.is_too_large:
                self.came(end - known.end, now_s)
            if start > known.start:  # the oldest records were deleted: how many is only known by counting again
                fresh = max(known.fresh, known.next)
                self.partitions[number] = _Partition(start=start, next=start, end=end, fresh=fresh, seen=start)
            else:
                known.end = end

    def came(self, count: int, now_s: float) -> None:
        if count:
            self.new.append((now_s, count))

    def letters(self, topic: str, now_s: float) -> Letters:
        while self.new and self.new[0][0] < now_s - RECENT_S:
            self.new.popleft()
        known = self.partitions.values()
        if not known:
            return Letters(topic=topic, count=None)
        return Letters(
            topic=topic,
            count=sum(each.records + each.uncounted for each in known),
            is_exact=not any(each.uncounted for each in known),
            new=sum(count for _, count in self.new),
        )


class LetterCounter:
    """For one thread."""

    def __init__(self, cluster: Cluster, now_s: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._now_s = now_s
        self._topics: dict[str, _Counted] = {}

    def turn(self, topics: Collection[str], snapshot: Snapshot) -> Mapping[str, Letters]:
        """By topic. Other topics are forgotten."""
        for gone in self._topics.keys() - topics:
            del self._topics[gone]
        budget = TURN_BYTES
        found: dict[str, Letters] = {}
        for name in topics:
            topic = snapshot.topics.get(name)
            if topic is None:
                found[name] = Letters(topic=name, count=None)
                continue
            counted = self._topics.get(name)
            if counted is None or counted.topic_id != topic.topic_id:  # new, or deleted and made again
                counted = self._topics[name] = _Counted(topic.topic_id)
            counted.learn(snapshot.starts.get(name, ()), snapshot.ends.get(name, ()), self._now_s())
            budget -= self._read(counted, topic, snapshot, budget)
            found[name] = counted.letters(name, self._now_s())
        return found

    def _read(self, counted: _Counted, topic: Topic, snapshot: Snapshot, budget: int) -> int:
        """Counts until the budget is used up. Returns how many bytes were read."""
        wanted = [(number, each) for number, each in counted.partitions.items() if each.uncounted]
        if not wanted or budget <= 0 or counted.is_too_large:
            return 0
        source, spent = Source(self._cluster, snapshot, topic), 0
        try:
            with source.reader(lambda: None) as reader:
                for number, each in wanted:
                    if number not in source.leaders:
                        continue
                    for piece in reader.pieces(number, each.next, each.end):
                        records = sum(group.count for group in piece.groups)
                        if each.next >= each.fresh:
                            counted.came(records, self._now_s())
                        each.records += records
                        each.size_bytes += piece.size_bytes
                        each.next = piece.next_offset
                        spent += piece.size_bytes
                        if spent >= budget or counted.is_too_large:
                            return spent
                    each.seen = each.end
        except (CannotRead, NoAnswer):
            pass  # the figure stays an upper bound, and the next turn tries again
        return spent
