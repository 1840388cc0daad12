"""When readers with read_committed could see a record: when the marker of its transaction was appended.

The broker's files say so. The timestamp of a record says only when it was appended, with its transaction still open.
"""

from __future__ import annotations

import bisect
from pathlib import Path

from odradek.protocol.batch import iter_batches


class Commits:
    """The transactions of one partition, read from the data directory of a broker."""

    def __init__(self, data: Path, topic: str, partition: int) -> None:
        self._ends: list[int] = []  # last offsets of batches, in order
        self._visible_ms: list[int] = []
        open_batches: dict[int, list[int]] = {}  # by producer: indices of what was written and not yet committed
        for log in sorted((data / f"{topic}-{partition}").glob("*.log")):
            for batch in iter_batches(log.read_bytes()):
                header = batch.header
                if header.is_control:
                    for index in open_batches.pop(header.producer_id, ()):
                        self._visible_ms[index] = header.max_timestamp
                    continue
                if header.is_transactional:
                    open_batches.setdefault(header.producer_id, []).append(len(self._ends))
                self._ends.append(header.last_offset)
                self._visible_ms.append(header.max_timestamp)

    def visible_ms(self, offset: int) -> int:
        return self._visible_ms[bisect.bisect_left(self._ends, offset)]


class Visibility:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._partitions: dict[tuple[str, int], Commits] = {}

    def ms(self, topic: str, partition: int, offset: int) -> int:
        place = topic, partition
        if place not in self._partitions:
            self._partitions[place] = Commits(self._data, topic, partition)
        return self._partitions[place].visible_ms(offset)
