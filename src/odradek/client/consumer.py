"""Consumer: iterates over records in log order.

with Consumer("orders", group="billing", value=Order) as consumer:
    for record in consumer:
        bill(record.value)

With a group it shares the partitions with the group's other members and continues at the committed offset. It commits a
record when the program requests the next one. Without a group it reads all partitions and commits nothing.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Generic, Self

from confluent_kafka import Message

from odradek.client.abandoned import when_abandoned
from odradek.client.bad_records import BadRecords, OnBad
from odradek.client.configuring import Setting, addresses_of
from odradek.client.kinds import K, V
from odradek.client.reading import Progress, Reading, Start, Topic
from odradek.client.records import BadRecord, Record
from odradek.client.serdes import BYTES, Serde
from odradek.client.statistics import MetricName
from odradek.monitor.registry import Number

# The longest time of one poll: Ctrl-C is handled after it.
POLL_S = 0.25


class Consumer(Generic[K, V]):
    """Reads records. Without a committed offset it begins at `start`: earliest, latest, a datetime, or a timedelta ago.

    `on_bad`: what to do with a record that cannot be decoded. "fail" raises BadRecord, "skip" logs and counts it, a
    function gets the BadRecord.
    """

    def __init__(
        self,
        *topics: Topic,
        bootstrap: str | None = None,
        group: str | None = None,
        start: Start = "earliest",
        key: Serde[K] | type[K] = BYTES,
        value: Serde[V] | type[V] = BYTES,
        stop_at_end: bool = False,
        auto_commit: bool = True,
        on_bad: OnBad = "fail",
        **config: Setting,
    ) -> None:
        bootstrap = addresses_of(bootstrap)
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
        """The next record; None after the timeout, or with `stop_at_end` at the end of all partitions."""
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

    # Not a generator: a generator ends at its first exception, and the loop could not read the records after it.
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[K, V]:
        record = self.poll()
        if record is None:
            raise StopIteration
        return record

    @property
    def skipped(self) -> int:
        """The number of records that could not be decoded and that `on_bad` skipped."""
        return self._bad_records.skipped

    def commit(self, *records: Record[Any, Any]) -> None:
        """Commits these records; without arguments, all records that were returned."""
        self._reading.commit(records)

    def take(self, count: int, timeout: float = 1.0) -> list[Record[K, V]]:
        """Up to `count` records that come within `timeout` seconds: the input of one transaction."""
        ends_at = time.monotonic() + timeout
        records: list[Record[K, V]] = []
        while len(records) < count:
            record = self.poll(max(ends_at - time.monotonic(), 0))
            if record is None:
                break
            records.append(record)
        return records

    def progress(self, *records: Record[Any, Any]) -> Progress:
        """What `Transaction.send_offsets` commits."""
        return self._reading.progress(records)

    def rewind(self) -> None:
        """Continues at the committed offsets: reads the records of an aborted transaction again."""
        self._reading.rewind()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._reading.seek(topic, partition, offset)

    def assignment(self) -> list[tuple[str, int]]:
        return [(place.topic, place.partition) for place in self._reading.client.assignment()]

    def position(self) -> dict[tuple[str, int], int]:
        """The next offset of each partition."""
        return self._reading.position()

    def lag(self) -> dict[tuple[str, int], int]:
        return self._reading.lag()

    def metrics(self) -> dict[MetricName, Number]:
        """Metrics under the names of Java's client, from librdkafka's last report; empty before the first one."""
        return self._reading.statistics.metrics()

    def close(self) -> None:
        """Commits the records that were returned, and leaves the group."""
        self._close(clean=True)

    def _close(self, *, clean: bool) -> None:
        self._unclosed.detach()
        self._reading.close(clean=clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._close(clean=error is None)
