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
    # The offsets after the records that the sink has got but the group has not committed.
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def run(self) -> Outcome:
        self._assign()
        active_s = self.clock()
        seen = self._seen()
        while self.leash.stop_for is None:
            # Before the poll: the client knows of a record before a poll returns it.
            seen = self._seen()
            messages = self._polled()
            if messages:
                self._deliver(messages)
                active_s = self.clock()
            self._settle(now=False)
            if not messages and not self._ends and self.clock() - active_s > self.spec.linger_s:
                return Outcome(ending=Ending.IDLE, seen=seen)
        self._settle(now=True)
        if self.clock() - active_s > QUIET_S:
            return Outcome(ending=Ending.IDLE, seen=seen)
        return Outcome(ending=Ending.STOPPED)

    def _assign(self) -> None:
        places = [TopicPartition(topic, index) for topic, index in self.spec.topics]
        committed = {
            (place.topic, place.partition): place.offset if place.offset >= 0 else None
            for place in self.consumer.committed(places, COMMITTED_S)
        }
        self.sink.group_offsets = dict(committed)
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
        for message in messages:
            self._ends[message.topic(), message.partition()] = message.offset() + 1
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

    def _settle(self, *, now: bool) -> None:
        """Commits the group's offsets when the target has the records: only then may the group move on."""
        if not self._ends:
            return
        self.leash.check()
        if not self.tolerance.attempt(lambda: self.sink.flush(now=now)):
            return
        self.leash.check()
        ends, self._ends = self._ends, {}
        try:
            self.consumer.commit(
                offsets=[TopicPartition(topic, index, end) for (topic, index), end in ends.items()], asynchronous=False
            )
            self.sink.group_offsets.update(ends)
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
