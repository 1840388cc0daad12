"""Reads one planned range on an executor, as Arrow batches, exactly up to its end.

Compaction and transaction markers leave gaps between the offsets of a range, so records cannot be counted. A range is
done at the first record past its end, or when librdkafka reports the end of the log there. An offset out of range is a
loss: the records existed when the range was planned.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from odradek.spark import clients, consumers, raw_fetching
from odradek.spark.arrow_batches import record_batches, tick_row
from odradek.spark.consumers import RangeConsumer
from odradek.spark.errors import DataLoss, ReadTimeout
from odradek.spark.offsets import TopicPartition
from odradek.spark.options import ReadOptions, Topics
from odradek.spark.planning import OffsetRange, Task
from odradek.spark.positions import Positions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ROWS_MAX = 10_000
POLL_S = 0.2
METADATA_S = 1.0
NO_PARTITION = "the partition no longer exists"

OUT_OF_RANGE = frozenset(
    {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}  # noqa: SLF001
)
GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001
)
# librdkafka retries these by itself.
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)


def read_task(options: ReadOptions, task: Task) -> Iterator[pa.RecordBatch]:
    for wanted in task.ranges:
        yield from read_range(options, wanted)
    if task.tick:
        yield tick_row(task.tick.topic, task.tick.time_ms, include_headers=options.include_headers)


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    consumer = consumers.take(clients.reading(options, clients.prefetch(wanted.size)))
    try:
        yield from _Reading(consumer, options, wanted).batches()
    except GeneratorExit:  # the query needs no more rows
        consumers.give_back(consumer)
        raise
    except BaseException:
        consumer.kafka.close()
        raise
    consumers.give_back(consumer)


def positions_of(options: ReadOptions, wanted: OffsetRange) -> Positions | None:
    if not options.include_position:
        return None
    match options.selection:
        case Topics(names) if len(names) == 1:
            number = wanted.partition
        case _:  # topics share partition numbers; this sum differs by topic and does not depend on the other topics
            number = (zlib.crc32(wanted.topic.encode()) + wanted.partition) & 0xFFFF_FFFF
    return Positions(options.position_rank, number)


class _Reading:
    def __init__(self, consumer: RangeConsumer, options: ReadOptions, wanted: OffsetRange) -> None:
        self._consumer = consumer
        self._kafka = consumer.kafka
        self._options = options
        self._wanted = wanted
        # Shared by both ways of reading, so that librdkafka continues with the newest timestamp of the raw fetches.
        self._positions = positions_of(options, wanted)
        # All records of the range below this offset have been read, or do not exist.
        self._position = wanted.start
        self._deadline_s = 0.0
        self._absences = 0
        self._look_again_s = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._wanted.place not in self._consumer.leaders:
            # librdkafka finds the leader of a new topic only at its next metadata refresh, up to a second later.
            self._look_for_partition()
        if self._wanted.to_latest:
            self._wanted = replace(self._wanted, end=max(self._wanted.end, self._edges()[1]))
        if raw_fetching.suits(self._options):
            yield from self._fetched()
        self._go_on_at(self._position)
        while self._position < self._wanted.end:
            records = self._records(self._polled())
            if records:
                yield from record_batches(
                    self._wanted.place,
                    records,
                    include_headers=self._options.include_headers,
                    positions=self._positions,
                )

    def _fetched(self) -> Iterator[pa.RecordBatch]:
        """The records that raw fetching can read; librdkafka reads the rest."""
        leader = self._consumer.leaders.get(self._wanted.place)
        if leader is None:
            return
        try:
            for batch, position in raw_fetching.fetched(leader, self._options, self._wanted, self._positions):
                self._moved_to(position)
                if batch is not None:
                    yield batch
        except raw_fetching.HandOver as reason:
            log.info("%s continues with librdkafka at offset %d: %s", self._wanted, self._position, reason)
            self._consumer.leaders.pop(self._wanted.place, None)

    def _polled(self) -> list[Message]:
        """The messages that have arrived. `consume(n)` alone would wait for n messages or its whole timeout."""
        while True:
            messages: list[Message] = self._kafka.consume(1, POLL_S)
            if messages:
                more = min(ROWS_MAX, self._wanted.end - self._position) - 1
                return messages + self._kafka.consume(more, 0) if more else messages
            self._check_deadline()
            if time.monotonic() >= self._look_again_s:
                self._look_for_partition()
            if self._position >= self._wanted.end:
                return []

    def _records(self, messages: list[Message]) -> list[Message]:
        if messages and not any(map(Message.error, messages)) and messages[-1].offset() < self._wanted.end:
            self._moved_to(messages[-1].offset() + 1)
            return messages
        records = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._on_error(error, message)
            elif message.offset() >= self._wanted.end:
                self._moved_to(self._wanted.end)
                break
            elif message.offset() >= self._position:
                records.append(message)
                self._moved_to(message.offset() + 1)
        return records

    def _on_error(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if message.offset() > self._position:
                self._moved_to(message.offset())
        elif code in OUT_OF_RANGE:
            self._on_out_of_range(error)
        elif code in GONE or code in PASSING or error.retriable():
            # GONE may be temporary: a broker that has just started knows few topics. `_look_for_partition` decides.
            log.warning("reading %s: %s", self._wanted, error)
        else:
            raise KafkaException(error)

    def _on_out_of_range(self, error: KafkaError) -> None:
        first, end = self._edges()
        if first > self._position:
            if not self._wanted.from_earliest:
                self._lost(f"the partition now begins at offset {first}: retention deleted them", first)
            self._go_on_at(min(first, self._wanted.end))
        elif end < self._position:
            self._lost(f"the partition now ends at offset {end}: it was deleted and created again", self._wanted.end)
        else:
            log.warning("reading %s: offset %d was temporarily out of range: %s", self._wanted, self._position, error)
            self._check_deadline()
            self._go_on_at(self._position)

    def _look_for_partition(self) -> None:
        """Only the topic list shows that a topic was deleted. It is trusted after `fetchOffset.numRetries` times."""
        self._look_again_s = time.monotonic() + self._options.fetch_interval_s
        try:
            metadata = self._kafka.list_topics(self._wanted.topic, timeout=METADATA_S)
        except KafkaException as problem:
            log.warning("looking for %s: %s", self._wanted.place, problem)
            return
        partitions = metadata.topics[self._wanted.topic].partitions
        for number, partition in partitions.items():
            if partition.leader in metadata.brokers:
                leader = metadata.brokers[partition.leader]
                self._consumer.leaders[TopicPartition(self._wanted.topic, number)] = (leader.host, leader.port)
        if self._wanted.partition in partitions:
            self._absences = 0
            return
        self._absences += 1
        if self._absences >= self._options.fetch_attempts:
            self._lost(NO_PARTITION, self._wanted.end)

    def _edges(self) -> tuple[int, int]:
        """The first offset and the end of the partition now. With read_committed, the end is the last stable offset."""
        place = KafkaPartition(*self._wanted.place)
        try:
            edges: tuple[int, int] = self._kafka.get_watermark_offsets(place, timeout=self._options.poll_timeout_s)
        except KafkaException as problem:
            if problem.args[0].code() not in GONE:
                raise
            self._lost(NO_PARTITION, self._wanted.end)
            return self._wanted.end, self._wanted.end
        return edges

    def _lost(self, why: str, until: int) -> None:
        until = min(until, self._wanted.end)
        told = f"records {self._position} to {until - 1} of {self._wanted.place} cannot be read: {why}"
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{told}; to skip them, set the option failOnDataLoss to false")
        log.warning("%s; skipped, because failOnDataLoss is false", told)
        self._moved_to(until)

    def _go_on_at(self, offset: int) -> None:
        self._moved_to(offset)
        if offset < self._wanted.end:
            self._consumer.assigned = True
            self._kafka.assign([KafkaPartition(*self._wanted.place, offset)])

    def _moved_to(self, offset: int) -> None:
        self._position = offset
        self._deadline_s = time.monotonic() + self._options.poll_timeout_s

    def _check_deadline(self) -> None:
        problem = self._consumer.last_error
        if problem is not None and (problem.fatal() or problem.code() == KafkaError._AUTHENTICATION):  # noqa: SLF001
            raise KafkaException(problem)
        if time.monotonic() > self._deadline_s:
            raise ReadTimeout(
                f"no record of {self._wanted} from offset {self._position} for {self._options.poll_timeout_s:.0f} s"
                + (f" ({problem.str()})" if problem else "")
                + "; the option kafkaConsumer.pollTimeoutMs sets this timeout"
            )
