"""Writes the transactions of a transactional id: each has the records of one task, and a marker of its micro-batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from odradek.spark.batch_markers import FORBIDDEN, Marker, MarkersRefused, MarkersUnreadable, MarkerTopic
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.task_producer import POLL_S, DeliveryFailed, Failures, Record, deliver
from odradek.spark.transactional_producer import initialized

INIT_WITHIN_S = 60.0
# An earlier attempt of the same task may still be writing.
TURN_WITHIN_S = 10.0

UNUSABLE = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 (librdkafka's own codes have this form)
        KafkaError._FATAL,  # noqa: SLF001
        KafkaError._STATE,  # noqa: SLF001
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    }
)


FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001
TWINS = (
    "If a copy of this query writes, too (a copy of its checkpoint has the same names), give each the option "
    "delivery.sink with a name of its own. "
)
REMEDIES = {
    **dict.fromkeys(FENCED, TWINS),
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Set the option kafka.transaction.timeout.ms to at most "
    "transaction.max.timeout.ms of the brokers. ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One task of a micro-batch. `query_id` identifies the checkpoint."""

    sink: str  # the same for all micro-batches of a query, and for no other sink
    task: int
    batch: int
    query_id: str
    # Identifies the offsets that the micro-batch reads; None: unknown.
    plan: str | None = None
    # How to begin again after the checkpoint was deleted.
    to_begin_again: str = "use `odradek streams reset`"

    @property
    def transactional_id(self) -> str:
        return f"{self.sink}.{self.task}"


class WriterLost(RuntimeError):
    """The producer cannot be used any more. A new one with its transactional id knows what was committed."""


class TransactionFailed(WriterLost):
    def __init__(self, transactional_id: str, what: str, refused: KafkaException) -> None:
        error = refused.args[0]
        remedy = REMEDIES.get(error.code(), "")
        super().__init__(
            f"the transaction of {transactional_id} could not {what}: {error.str()} ({error.name()}). "
            f"Readers with read_committed see none of its records. {remedy}To write without transactions, set the "
            "option delivery.guarantee=at-least-once"
        )


class TransactionTimedOut(WriterLost):
    def __init__(self, transactional_id: str, took_s: float, timeout_ms: int) -> None:
        super().__init__(
            f"the transaction of {transactional_id} was aborted: it was open for {took_s:.0f} s, and "
            f"kafka.transaction.timeout.ms is {timeout_ms}. Raise that option (the brokers allow at most their "
            "transaction.max.timeout.ms), or give the query smaller tasks: more partitions, or fewer records in a "
            "micro-batch. To write without transactions, set the option delivery.guarantee=at-least-once"
        )


class TransactionalWriter:
    """A producer that has its transactional id: all others with this id are fenced, and their transactions aborted."""

    def __init__(
        self, config: Mapping[str, str], markers: MarkerTopic, transactional_id: str, batch: int | None = None
    ) -> None:
        """`batch`: the micro-batch that it is to write; None: no other writes for this sink."""
        self._id, self._markers = transactional_id, markers
        self._turn = threading.Lock()
        self._failures = Failures()
        self._begun_at = 0.0
        try:
            self._producer, self._config = initialized(config, transactional_id, self._failures, INIT_WITHIN_S)
        except KafkaException as refused:
            raise TransactionFailed(transactional_id, "begin", refused) from None
        # From now on no older attempt writes a marker.
        self._last = self._newest_marker(batch)

    def write(self, attempt: Attempt, records: Sequence[Record]) -> bool:
        """False: an earlier attempt has written the task."""
        with self.begun(attempt) as is_to_be_written:
            if not is_to_be_written:
                return False
            self.commit(attempt, records)
            return True

    @contextmanager
    def begun(self, attempt: Attempt) -> Iterator[bool]:
        """A transaction for this task; False: its marker is there, so there is no transaction."""
        if not self._turn.acquire(timeout=TURN_WITHIN_S):
            raise WriterLost(f"an earlier attempt of {self._id} is still writing")
        try:
            is_to_be_written = not self._is_written(attempt)
            if is_to_be_written:
                self._begin()
            yield is_to_be_written
        except BaseException:
            self._give_up()
            raise
        finally:
            self._turn.release()

    def send(self, records: Iterable[Record]) -> None:
        try:
            deliver(self._producer, self._failures, records)
        except DeliveryFailed as failed:
            raise self._judged(failed) from None

    def commit(self, attempt: Attempt, records: Iterable[Record] = ()) -> None:
        """Sends the last records, and the marker."""
        marker = Marker(batch=attempt.batch, query_id=attempt.query_id, plan=attempt.plan)
        self.send(records)
        self._flush()
        # Alone and last: an open transaction hides the markers of other tasks behind it.
        self.send([self._markers.record(self._id, marker)])
        try:
            self._producer.commit_transaction()
            self._failures.raise_any()
        except KafkaException as refused:
            try:
                self._failures.raise_any()
            except DeliveryFailed as failed:
                raise self._judged(failed) from None
            raise self._timed_out(refused.args[0]) or TransactionFailed(self._id, "be committed", refused) from None
        except DeliveryFailed as failed:
            raise self._judged(failed) from None
        self._last = marker

    def _flush(self) -> None:
        try:
            while self._producer.flush(POLL_S):
                self._failures.raise_any()
            self._failures.raise_any()
        except DeliveryFailed as failed:
            raise self._judged(failed) from None
        except KafkaException as refused:
            raise self._timed_out(refused.args[0]) or TransactionFailed(self._id, "be written", refused) from None

    def _is_written(self, attempt: Attempt) -> bool:
        try:
            return is_written(self._last, attempt)
        except CheckpointMismatch:  # unless the application was reset since
            self._last = self._newest_marker(attempt.batch)
            return is_written(self._last, attempt)

    def _newest_marker(self, batch: int | None) -> Marker | None:
        try:
            return self._markers.last(self._config, self._id, batch)
        except KafkaException as refused:
            raise TransactionFailed(self._id, "begin", refused) from None
        except MarkersUnreadable as unreadable:
            raise WriterLost(str(unreadable)) from None

    def _begin(self) -> None:
        self._failures.begin_task()
        self._begun_at = time.monotonic()
        try:
            self._producer.begin_transaction()
        except KafkaException as refused:
            raise TransactionFailed(self._id, "begin", refused) from None

    def _judged(self, failed: DeliveryFailed) -> Exception:
        """Whether a new producer might deliver the records that this one cannot."""
        if failed.topic == self._markers.name and failed.error.code() in FORBIDDEN:
            return MarkersRefused(failed.topic, failed.error)
        if failed.error.code() not in UNUSABLE:
            return failed
        twins = f". {TWINS.rstrip()}" if failed.error.code() in FENCED else ""
        return self._timed_out(failed.error) or WriterLost(f"{failed}{twins}")

    def _timed_out(self, error: KafkaError) -> TransactionTimedOut | None:
        """The coordinator fences the producer of a transaction that it aborts after the time-out."""
        took_s, timeout_ms = time.monotonic() - self._begun_at, int(self._config["transaction.timeout.ms"])
        is_late = took_s * 1000 >= timeout_ms and error.code() in UNUSABLE
        return TransactionTimedOut(self._id, took_s, timeout_ms) if is_late else None

    def _give_up(self) -> None:
        """The next producer with this transactional id aborts it, too, should that fail here."""
        self._producer.purge()
        try:
            self._producer.abort_transaction(1.0)
        except KafkaException:
            return


def is_written(last: Marker | None, attempt: Attempt) -> bool:
    """Whether an earlier attempt has written this task. CheckpointMismatch if the marker is of another checkpoint."""
    if last is None:
        return False
    if last.query_id != attempt.query_id:
        raise CheckpointMismatch(
            f"{attempt.transactional_id} has already written micro-batch {last.batch} of another checkpoint, which was "
            "deleted. This query would write its results again. To start from the beginning, and write them again, "
            f"{attempt.to_begin_again}; otherwise restore the checkpoint"
        )
    is_same_plan = last.plan == attempt.plan or None in (last.plan, attempt.plan)
    if last.batch > attempt.batch or (last.batch == attempt.batch and not is_same_plan):
        other = "" if last.batch > attempt.batch else " and other offsets"
        raise CheckpointMismatch(
            f"{attempt.transactional_id} has already written micro-batch {last.batch}, and the checkpoint continues "
            f"with {attempt.batch}{other}: it is older than the results. Restore the newest checkpoint. To start from "
            f"the beginning, and write all results again, {attempt.to_begin_again}"
        )
    return last.batch == attempt.batch
