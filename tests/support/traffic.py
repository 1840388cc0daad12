"""Clients that keep running whatever happens to the brokers, and remember acknowledgements, records and errors."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from support.onlooker import WITHIN_S, eventually

Place = tuple[int, int]
# Between two records, or two groups of records.
PAUSE_S = 0.002


class OnThread:
    """Runs until the `with` block ends. `errors` are the errors that a user of the client would see."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.errors: list[object] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(WITHIN_S)
        assert kind is not None or not self._thread.is_alive(), f"{type(self).__name__}: does not end"

    def _run(self) -> None:
        try:
            self.go_on()
        except BaseException as surfaced:  # noqa: BLE001 the test reports it
            self.errors.append(surfaced)

    def go_on(self) -> None:
        raise NotImplementedError


class AnyWriter(OnThread):
    """Numbered records, one after another to every partition.

    `acknowledged` has the number at each (partition, offset), as the broker acknowledged it.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(bootstrap, topic)
        self.partitions = partitions
        self.acknowledged: dict[Place, int] = {}
        self._acknowledged_at: dict[int, list[float]] = defaultdict(list)

    def acknowledge(self, partition: int, offset: int, number: int) -> None:
        self.acknowledged[partition, offset] = number
        self._acknowledged_at[partition].append(time.monotonic())

    def await_more(self, count: int = 100) -> None:
        """Waits until `count` more records are acknowledged in every partition."""
        before = {partition: self._count(partition) for partition in range(self.partitions)}
        eventually(
            lambda: all(self._count(each) >= had + count for each, had in before.items()) or self.errors,
            f"{type(self).__name__}: no more records are acknowledged",
        )

    def longest_gap_s(self, since: float) -> float:
        """The longest time without an acknowledgement in any partition, from `since` (`time.monotonic`) on."""
        return max(
            later - earlier
            for times in list(self._acknowledged_at.values())
            for earlier, later in itertools.pairwise([since, *(at for at in list(times) if at >= since)])
        )

    def _count(self, partition: int) -> int:
        return len(self._acknowledged_at[partition])


class Writer(AnyWriter):
    """librdkafka with its defaults and idempotence."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, at_once: int = 1, config: Mapping[str, object] = {}
    ) -> None:
        super().__init__(bootstrap, topic, partitions)
        self.sent = 0
        self._at_once = at_once
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, **config}
        )

    def __enter__(self) -> Self:
        super().__enter__()
        self.await_more(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, problem, trace)
        if kind is None:
            left = self._producer.flush(WITHIN_S)
            assert left == 0, f"{left} records were neither acknowledged nor refused"

    def await_more_sent(self, count: int) -> None:
        sent = self.sent
        eventually(lambda: self.sent >= sent + count, "no more records are sent")

    def grow(self, partitions: int) -> None:
        """Waits until the client knows that the topic has more partitions. It then writes to all of them."""
        eventually(
            lambda: len(self._producer.list_topics(self.topic, WITHIN_S).topics[self.topic].partitions) >= partitions,
            "the producer does not learn of the new partitions",
        )
        self.partitions = partitions

    def go_on(self) -> None:
        for number in itertools.count():
            self._producer.produce(
                self.topic, str(number), partition=number % self.partitions, on_delivery=self._delivered
            )
            self.sent = number + 1
            if self.sent % self._at_once == 0:
                self._producer.poll(PAUSE_S)
                if self._ending.is_set():
                    return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledge(message.partition(), message.offset(), int(message.value()))


def everything(bootstrap: str, topic: str, partitions: int) -> dict[Place, int]:
    """All numbers that a reader finds, by partition and offset."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "everything",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    found: dict[Place, int] = {}
    try:
        ends = {p: reader.get_watermark_offsets(TopicPartition(topic, p), WITHIN_S)[1] for p in range(partitions)}
        reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
        deadline = time.monotonic() + WITHIN_S
        while any(found_end < ends[p] for p, found_end in _ends(found, ends).items()):
            assert time.monotonic() < deadline, f"only {len(found)} records can be read of {ends}"
            for message in reader.consume(5000, 0.2):
                assert message.error() is None, message.error()
                found[message.partition(), message.offset()] = int(message.value())
    finally:
        reader.close()
    return found


def _ends(found: Mapping[Place, int], partitions: Mapping[int, int]) -> dict[int, int]:
    ends = dict.fromkeys(partitions, 0)
    for partition, offset in found:
        ends[partition] = max(ends[partition], offset + 1)
    return ends


def nothing_is_lost(writer: AnyWriter, bootstrap: str) -> None:
    """Every acknowledged record is at its acknowledged offset, no record is stored twice, and there was no error."""
    assert writer.errors == []
    found = everything(bootstrap, writer.topic, writer.partitions)
    lost = {place: number for place, number in writer.acknowledged.items() if found.get(place) != number}
    assert not lost, (
        f"{len(lost)} of {len(writer.acknowledged)} acknowledged records are lost: {list(lost.items())[:5]}"
    )
    twice = [number for number, count in Counter(found.values()).items() if count > 1]
    assert not twice, f"{len(twice)} records are stored twice: {twice[:5]}"


class GroupReader(OnThread):
    """librdkafka's consumer in a group, with its defaults: the records it received, in order, and its errors.

    `assigned` are the partitions it owns; `rebalances` counts its assignments.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, config: Mapping[str, object] = {}) -> None:
        super().__init__(bootstrap, topic)
        self.seen: list[tuple[Place, int]] = []
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **config,
            }
        )
        # Kept here, because librdkafka answers on the polling thread, and a question would wait for that thread.
        self.assigned: list[int] = []
        self.rebalances = 0
        self._reader.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)

    def _given(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted(each.partition for each in partitions)
        self.rebalances += 1

    def _taken(self, reader: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = []

    def go_on(self) -> None:
        try:
            while not self._ending.is_set():
                for message in self._reader.consume(1000, 0.05):
                    if error := message.error():
                        self.errors.append(error)
                    else:
                        self.seen.append(((message.partition(), message.offset()), int(message.value())))
        finally:
            self._reader.close()
