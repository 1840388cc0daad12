"""The output: the newest count of each window, and all final counts."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime

from confluent_kafka import Consumer, TopicPartition

from faults.clicking import Clicks, Window
from faults.counting import FINAL, NEWEST

PARTITIONS = 2


class Results:
    def __init__(self, bootstrap: str) -> None:
        self.newest: dict[Window, int] = {}
        self.final: defaultdict[Window, list[int]] = defaultdict(list)
        self.last_written: defaultdict[str, float] = defaultdict(float)  # by topic, seconds since 1970
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "results",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        places = [TopicPartition(topic, n, 0) for topic in (NEWEST, FINAL) for n in range(PARTITIONS)]
        self._consumer.assign(places)

    def read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(10_000, timeout_s):
            if message.error() is not None:
                continue
            row = json.loads(message.value())
            window = row["user"], datetime.fromisoformat(row["window_start"])
            self.last_written[message.topic()] = max(self.last_written[message.topic()], message.timestamp()[1] / 1000)
            if message.topic() == NEWEST:
                self.newest[window] = row["n"]
            else:
                self.final[window].append(row["n"])

    @property
    def written_twice(self) -> int:
        return sum(len(counts) - 1 for counts in self.final.values())

    def differences(self, clicks: Clicks) -> list[str]:
        """Empty when every window has its expected count. A final count may occur several times, if all are equal."""
        final = {window: set(counts) for window, counts in self.final.items()}
        return [
            *_differences("newest", clicks.counts, self.newest),
            *_differences("final", {window: {count} for window, count in clicks.final().items()}, final),
        ]

    def close(self) -> None:
        self._consumer.close()


def _differences(what: str, expected: dict[Window, object], found: dict[Window, object]) -> list[str]:
    return [
        f"{what} of {window[0]} at {window[1]:%d %H:%M:%S}: {found.get(window)}, expected {expected.get(window)}"
        for window in sorted(expected.keys() | found.keys())
        if expected.get(window) != found.get(window)
    ]
