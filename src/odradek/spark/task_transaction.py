"""Writes the records of one task of a micro-batch in one transaction, together with a marker of the micro-batch.

Exactly once for consumers with `isolation.level=read_committed`. Spark runs a micro-batch again after a failure, with
the same rows in the same tasks. A task whose marker is already there writes nothing. Two attempts of one task have the
same transactional id, so the broker fences the older one.

Markers are records of a compacted topic and not committed offsets: offsets expire while a query is stopped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, Producer

from odradek.spark.batch_markers import Marker, MarkerTopic
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.ownership import claim, is_claimed_by
from odradek.spark.task_producer import Failures, Record, deliver, reporting

# Each has threads and connections of its own.
PRODUCERS_MAX = 16
# A transaction that stays open longer is aborted: it holds back readers. It has to be longer than the longest task.
TRANSACTION_TIMEOUT_MS = 120_000
INIT_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One task of a micro-batch. `query_id` identifies the checkpoint."""

    sink: str  # the same for all micro-batches of a query, and for no other sink
    task: int
    batch: int
    query_id: str
    may_be_repeated: bool  # whether an earlier attempt may have written it

    @property
    def transactional_id(self) -> str:
        return f"{self.sink}.{self.task}"


class TaskTransaction:
    """The transaction of one task. It begins with the first record, and is committed by `finish`.

    with TaskTransaction(config, markers, attempt) as transaction:
        transaction.send(records)
        transaction.finish()
    """

    def __init__(self, config: Mapping[str, str], markers: MarkerTopic, attempt: Attempt) -> None:
        self._config = {**config, "transactional.id": attempt.transactional_id}
        self._config.setdefault("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
        self._markers = markers
        self._attempt = attempt
        self._open: _Initialized | None = None
        self._is_written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._open is not None:
            _PRODUCERS.pop(_key(self._config), None)
            self._open.give_up()

    def send(self, records: Iterable[Record]) -> None:
        if self._is_written:
            return
        if self._open is None:
            self._begin()
        if self._open is not None:
            deliver(self._open.producer, self._open.failures, records)

    def finish(self) -> None:
        """Returns when the transaction is committed. A task without records needs none."""
        if self._open is None:
            return
        marker = Marker(batch=self._attempt.batch, query_id=self._attempt.query_id)
        # The last record of the transaction: an open transaction hides the markers of other tasks behind it.
        deliver(
            self._open.producer, self._open.failures, [self._markers.record(self._attempt.transactional_id, marker)]
        )
        self._open.commit()
        self._open.last = marker

    def _begin(self) -> None:
        key = _key(self._config)
        found = _PRODUCERS.pop(key, None)
        if found is None or not is_claimed_by(key, found.token):
            found = _Initialized(self._config)
            found.token = claim(key)
            if self._attempt.may_be_repeated:
                found.last = self._markers.last(self._config, self._attempt.transactional_id)
        _PRODUCERS[key] = found
        while len(_PRODUCERS) > PRODUCERS_MAX:
            _PRODUCERS.popitem(last=False)
        self._is_written = is_written(found.last, self._attempt)
        if not self._is_written:
            found.begin()
            self._open = found


class _Initialized:
    """A producer that has its transactional id: all others with this id are fenced, and their transactions aborted."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.failures = Failures()
        self.producer = Producer({**config, **reporting(self.failures)})
        self.token = ""
        self.last: Marker | None = None
        try:
            self.producer.init_transactions(INIT_WITHIN_S)
        except KafkaException as refused:
            raise TransactionFailed(config["transactional.id"], "begin", refused) from None
        self._id = config["transactional.id"]

    def begin(self) -> None:
        self.failures.begin_task()
        self.producer.begin_transaction()

    def commit(self) -> None:
        try:
            self.producer.commit_transaction()
        except KafkaException as refused:
            self.failures.raise_any()
            raise TransactionFailed(self._id, "be committed", refused) from None

    def give_up(self) -> None:
        """The next producer with this transactional id aborts it, too, should that fail here."""
        self.producer.purge()
        try:
            self.producer.abort_transaction(1.0)
        except KafkaException:
            return


class TransactionFailed(RuntimeError):
    def __init__(self, transactional_id: str, what: str, refused: KafkaException) -> None:
        error = refused.args[0]
        super().__init__(
            f"the transaction of {transactional_id} could not {what}: {error.str()} ({error.name()}). "
            "Readers with read_committed see none of its records. To write without transactions, set the option "
            "delivery.guarantee=at-least-once"
        )


def is_written(last: Marker | None, attempt: Attempt) -> bool:
    """Whether an earlier attempt has written this task. CheckpointMismatch if the marker is of another checkpoint."""
    if last is None:
        return False
    if last.query_id != attempt.query_id:
        raise CheckpointMismatch(
            f"{attempt.transactional_id} has already written micro-batch {last.batch} of another checkpoint, which was "
            "deleted. This query would write its results again. To start from the beginning, and write them again, "
            "use `odradek streams reset`; otherwise restore the checkpoint"
        )
    if last.batch > attempt.batch:
        raise CheckpointMismatch(
            f"{attempt.transactional_id} has already written micro-batch {last.batch}, and the checkpoint continues "
            f"with {attempt.batch}: it is older than the results. Restore the newest checkpoint. To start from the "
            "beginning, and write all results again, use `odradek streams reset`"
        )
    return last.batch == attempt.batch


_PRODUCERS: OrderedDict[str, _Initialized] = OrderedDict()


def _key(config: Mapping[str, str]) -> str:
    return f"{config.get('bootstrap.servers', '')} {config['transactional.id']}"
