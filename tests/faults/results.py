"""The output, as a reader with read_committed sees it: every record is compared, and none may be there twice."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from faults.clicking import Clicks, Sale, Window
from faults.counting import BAD, FINAL, NEWEST, SOLD

PARTITIONS = 2


class Results:
    def __init__(self, bootstrap: str) -> None:
        self.newest: defaultdict[Window, list[int]] = defaultdict(list)
        self.final: defaultdict[Window, list[int]] = defaultdict(list)
        self.sold: defaultdict[int, list[Sale]] = defaultdict(list)
        self.bad: Counter[bytes] = Counter()
        self.last_written: defaultdict[str, float] = defaultdict(float)  # by topic, seconds since 1970
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "results",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        places = [TopicPartition(topic, n, 0) for topic in (NEWEST, FINAL, SOLD, BAD) for n in range(PARTITIONS)]
        self._consumer.assign(places)

    def read(self, timeout_s: float) -> None:
        for message in self._consumer.consume(10_000, timeout_s):
            if message.error() is None:
                self._take(message)

    def _take(self, message: Message) -> None:
        topic = message.topic()
        self.last_written[topic] = max(self.last_written[topic], message.timestamp()[1] / 1000)
        if topic == BAD:
            self.bad[message.value()] += 1
            return
        row = json.loads(message.value())
        if topic == SOLD:
            self.sold[row["id"]].append((row["user"], row["price"], row["name"]))
            return
        window = row["user"], datetime.fromisoformat(row["window_start"])
        (self.newest if topic == NEWEST else self.final)[window].append(row["n"])

    @property
    def records(self) -> int:
        rows = sum(len(of) for each in (self.newest, self.final, self.sold) for of in each.values())
        return rows + self.bad.total()

    @property
    def written_twice(self) -> int:
        """Each count of a window is larger than the one before it, and everything else is there once."""
        repeated = sum(after <= before for of in self.newest.values() for before, after in pairwise(of))
        once = [len(of) - 1 for each in (self.final, self.sold) for of in each.values()]
        return repeated + sum(once) + sum(count - 1 for count in self.bad.values())

    def differences(self, clicks: Clicks) -> list[str]:
        """Empty when the output has every expected record, and no other."""
        last = {window: of[-1] for window, of in self.newest.items()}
        final = {window: [count] for window, count in clicks.final().items()}
        sold = {click: [sale] for click, sale in clicks.sales.items()}
        return [
            *_differences("newest", clicks.counts, last),
            *_differences("final", final, self.final),
            *_differences("sold", sold, self.sold),
            *_differences("bad", dict.fromkeys(clicks.broken, 1), self.bad),
        ]

    def close(self) -> None:
        self._consumer.close()


def _differences(what: str, expected: Mapping[Any, object], found: Mapping[Any, object]) -> list[str]:
    return [
        f"{what} of {key}: {found.get(key)}, expected {expected.get(key)}"
        for key in sorted(expected.keys() | found.keys())
        if expected.get(key) != found.get(key)
    ]
