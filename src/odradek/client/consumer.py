"""Consumer: records in log order, by iteration.

with Consumer("orders", group="billing", value=Order) as consumer:
    for record in consumer:
        bill(record.value)

With a group it shares the partitions with the group's other members, goes on where the group left off, and commits each
record once the next one is asked for. Without a group it reads all partitions, joins nothing and commits nothing.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Generic, Self

from confluent_kafka import Message

from odradek.client.abandoned import when_abandoned
from odradek.client.bad_records import BadRecords, OnBad
from odradek.client.configuring import BOOTSTRAP, Setting
from odradek.client.kinds import K, V
from odradek.client.reading import Reading, Start, Topic
from odradek.client.records import BadRecord, Record
from odradek.client.serdes import BYTES, Serde

# How long a poll may last before Ctrl-C is noticed.
POLL_S = 0.25


class Consumer(Generic[K, V]):
    """`start` counts where the group has never been, and without one: earliest, latest, a datetime, or so long ago.

    `on_bad`: what to do with a record that cannot be decoded. "fail" raises BadRecord, "skip" logs and counts it, a
    function gets the BadRecord.
    """

    def __init__(
        self,
        *topics: Topic,
        bootstrap: str = BOOTSTRAP,
        group: str | None = None,
        start: Start = "earliest",
        key: Serde[K] | type[K] = BYTES,
        value: Serde[V] | type[V] = BYTES,
        stop_at_end: bool = False,
        auto_commit: bool = True,
        on_bad: OnBad = "fail",
        **config: Setting,
    ) -> None:
        self._bad_records = BadRecords(on_bad, may_await=False)
        self._reading: Reading[K, V] = Reading(
            topics,
            bootstrap,
            group=group,
            start=start,
            key=key,
            value=value,
            stop_at_end=stop_at_end,
            auto_commit=auto_commit,
            config=config,
        )
        self._unclosed = when_abandoned(self, bootstrap, self._reading.abandon)

    def poll(self, timeout: float | None = None) -> Record[K, V] | None:
        """The next record; None when none came in time, or with `stop_at_end` when all is read."""
        reading = self._reading
        reading.done_with_last()
        ends_at = None if timeout is None else time.monotonic() + timeout
        while reading.messages or not reading.is_at_end:
            left = POLL_S if ends_at is None else max(min(POLL_S, ends_at - time.monotonic()), 0)
            record = self._taken(reading.messages.popleft() if reading.messages else reading.client.poll(left))
            if record is not None:
                return record
            if ends_at is not None and time.monotonic() >= ends_at:
                break
        return None

    def _taken(self, message: Message | None) -> Record[K, V] | None:
        try:
            return self._reading.taken(message)
        except BadRecord as bad:
            if self._bad_records.are_raised:
                raise
            with self._reading.finishing_last():
                self._bad_records.meet(bad)
        return None

    # No generator: that one would be over after its first exception, and the records after it lost to the loop.
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[K, V]:
        record = self.poll()
        if record is None:
            raise StopIteration
        return record

    @property
    def skipped(self) -> int:
        """How many records could not be decoded and were passed over by `on_bad`."""
        return self._bad_records.skipped

    def commit(self, *records: Record[Any, Any]) -> None:
        """The group goes on after these records; without any, after all that was taken."""
        self._reading.commit(records)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._reading.seek(topic, partition, offset)

    def assignment(self) -> list[tuple[str, int]]:
        return [(place.topic, place.partition) for place in self._reading.client.assignment()]

    def position(self) -> dict[tuple[str, int], int]:
        """Of each partition, the offset that comes next."""
        return self._reading.position()

    def lag(self) -> dict[tuple[str, int], int]:
        return self._reading.lag()

    def close(self) -> None:
        """What was taken counts as done."""
        self._close(clean=True)

    def _close(self, *, clean: bool) -> None:
        self._unclosed.detach()
        self._reading.close(clean=clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._close(clean=error is None)
