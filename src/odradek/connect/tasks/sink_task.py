"""One run of a sink's task: read its partitions, convert, write to the target, then commit the group's offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, KafkaException, Message, TopicPartition

from odradek.client.records import ClientError
from odradek.connect.conversion import Conversion, Encoded
from odradek.connect.interface import Sink
from odradek.connect.records import Record, TopicPlace
from odradek.connect.tasks.dead_letters import dead_letter
from odradek.connect.tasks.leash import Leash
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.connect.tasks.tolerance import Failure, RawRecord, Stage, Tolerance, stage_of, write_or_divide
from odradek.connect.transformation import Transforms

POLL_S = 0.1
COMMITTED_S = 30.0
# A run that is asked to stop and has had no data for this time is idle: its task need not run again at once.
QUIET_S = 0.5
PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001


class Letters(Protocol):
    def write(self, letters: Sequence[Encoded]) -> None:
        """Returns when the dead letters are durable."""
        ...


@dataclass(slots=True, kw_only=True)
class SinkRun:
    """Drives a sink until its topics have had no data for `linger_s`, or it should stop."""

    spec: TaskSpec
    sink: Sink[Any]
    conversion: Conversion
    transforms: Transforms
    tolerance: Tolerance
    consumer: Consumer
    letters: Letters
    leash: Leash
    clock: Callable[[], float] = time.monotonic
    _raw: dict[int, RawRecord] = field(default_factory=dict)

    def run(self) -> Outcome:
        self._assign()
        active_s = self.clock()
        while self.leash.stop_for is None:
            messages = self._polled()
            if messages:
                self._deliver(messages)
                active_s = self.clock()
            elif self.clock() - active_s > self.spec.linger_s:
                return Outcome(ending=Ending.IDLE, seen=self._seen())
        if self.clock() - active_s > QUIET_S:
            return Outcome(ending=Ending.IDLE, seen=self._seen())
        return Outcome(ending=Ending.STOPPED)

    def _assign(self) -> None:
        places = [TopicPartition(topic, index) for topic, index in self.spec.topics]
        committed = {
            (place.topic, place.partition): place.offset if place.offset >= 0 else None
            for place in self.consumer.committed(places, COMMITTED_S)
        }
        known = self.sink.positions(committed)
        self.consumer.assign(
            [
                TopicPartition(topic, index, known.get((topic, index), OFFSET_STORED))
                for topic, index in self.spec.topics
            ]
        )

    def _polled(self) -> list[Message]:
        """One poll waits for the first record; the records behind it are taken without waiting."""
        first = self.consumer.poll(POLL_S)
        if first is None:
            return []
        more = self.consumer.consume(self.tolerance.options.batch_records_max - 1, 0)
        return [message for message in (first, *more) if _is_record(message)]

    def _deliver(self, messages: Sequence[Message]) -> None:
        records = [record for record in map(self._decoded, messages) if record is not None]
        self.leash.check()
        if records:
            for failure in write_or_divide(self.sink.write, records, self.tolerance):
                self.tolerance.bad(
                    Failure(
                        record=failure.record,
                        stage=failure.stage,
                        error=failure.error,
                        raw=self._raw.get(id(failure.record)),
                    )
                )
        skipped = len(self.tolerance.failures)
        self._write_dead_letters()
        self._raw.clear()
        self._commit(messages)
        self.leash.report(
            {
                "polled": len(messages),
                "written": len(records),
                "skipped": skipped,
                "topics": sorted({message.topic() for message in messages}),
            }
        )

    def _decoded(self, message: Message) -> Record | None:
        raw = _raw_of(message)
        stage = Stage.VALUE_CONVERTER
        try:
            record = self.tolerance.attempt(lambda: self.conversion.decoded(raw.topic, raw.key, raw.value, raw.headers))
            record.place = TopicPlace(raw.topic, raw.partition, raw.offset)
            record.partition = raw.partition
            record.timestamp_ms = raw.timestamp_ms
            stage = Stage.TRANSFORMATION
            changed = self.tolerance.attempt(lambda: self.transforms(record))
        except Exception as failed:  # noqa: BLE001 (`bad` raises it unless it is tolerated)
            self.tolerance.bad(Failure(record=None, stage=stage_of(failed, stage), error=failed, raw=raw))
            return None
        if changed is not None:
            self._raw[id(changed)] = raw
        return changed

    def _write_dead_letters(self) -> None:
        options = self.tolerance.options
        topic = options.errors_deadletterqueue_topic_name
        context = options.errors_deadletterqueue_context_headers_enable
        failures = self.tolerance.taken()
        if failures and topic:
            self.letters.write(
                [
                    dead_letter(failure, topic, self.spec.connector, self.spec.task, context=context)
                    for failure in failures
                ]
            )

    def _commit(self, messages: Sequence[Message]) -> None:
        """The target has the records: only now may the group move on."""
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            ends[message.topic(), message.partition()] = message.offset() + 1
        self.leash.check()
        try:
            self.consumer.commit(
                offsets=[TopicPartition(topic, index, end) for (topic, index), end in ends.items()], asynchronous=False
            )
        except KafkaException as refused:
            raise ClientError(
                f"committing the offsets of group connect-{self.spec.connector}", refused.args[0]
            ) from None

    def _seen(self) -> dict[tuple[str, int], int]:
        """The ends of the partitions, all of which has been read: news is what comes after them."""
        return {
            (topic, index): self.consumer.get_watermark_offsets(TopicPartition(topic, index), cached=True)[1]
            for topic, index in self.spec.topics
        }


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() in PASSING or error.retriable():
        return False
    raise ClientError("reading the topics of a sink", error)


def _raw_of(message: Message) -> RawRecord:
    kind, timestamp = message.timestamp()
    return RawRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers() or [],
        timestamp if kind else None,
    )
