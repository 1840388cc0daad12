"""Heartbeats of a source: an event at a steady interval that shows that it is alive, by Debezium's names."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from odradek.connect import records
from odradek.connect.records import INT64, STRING, Record, SourcePlace

TOPIC = "__debezium-heartbeat"
KEY = replace(records.struct({"serverName": STRING}, name="io.debezium.connector.common.ServerNameKey"), version=1)
VALUE = replace(records.struct({"ts_ms": INT64}, name="io.debezium.connector.common.Heartbeat"), version=1)


class Heartbeats:
    """Events in the topic `TOPIC.SERVER`; an interval of 0: never."""

    def __init__(
        self, interval_ms: int, *, topic: str, server: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._topic, self._server = topic, server
        self._clock = clock
        self._interval_s = interval_ms / 1_000
        # At once: a task that shares its slot with others may be stopped before a first interval ends.
        self._due_s = clock()

    def is_due(self) -> bool:
        return self._interval_s > 0 and self._clock() >= self._due_s

    def event(self, place: SourcePlace) -> Record:
        """The next one is due after the interval."""
        self._due_s = self._clock() + self._interval_s
        return Record(
            topic=f"{self._topic}.{self._server}",
            key={"serverName": self._server},
            key_schema=KEY,
            value={"ts_ms": time.time_ns() // 1_000_000},
            value_schema=VALUE,
            place=place,
        )
