"""The records of one task on their way to the brokers: sent as fast as there is room, and accounted for at the end.

A producer serves all tasks of a worker process that write with the same config: connections, metadata and producer id
are there from the second task on. Whatever goes wrong, the producer is dropped with all that still waits in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Record = tuple[Any, ...]
"""Arguments of `Producer.produce`: topic, value, key and perhaps partition, then headers."""

PRODUCERS_MAX = 8
# With reports of failures alone there is nothing to wake a waiting poll: it is asked often.
POLL_S = 0.005

# by the names of librdkafka's errors, of which those with an underscore are its own
ADVICE = {
    "_UNKNOWN_TOPIC": "create the topic, or correct its name",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or correct its name",
    "_UNKNOWN_PARTITION": "the column partition names a partition that the topic does not have",
    "_MSG_TIMED_OUT": "no acknowledgement came within kafka.delivery.timeout.ms; are the brokers reachable?",
    "MSG_SIZE_TOO_LARGE": "raise the option kafka.max.request.size (1000000 unless set) and max.message.bytes of the "
    "topic (1048588 unless set): `odradek config set topic TOPIC max.message.bytes=BYTES`",
}


class DeliveryFailed(RuntimeError):
    """Records of a task were not acknowledged. Others of the same task may have been: a retry writes them again."""

    def __init__(self, topic: str, error: KafkaError, count: int = 1, trouble: KafkaError | None = None) -> None:
        self.error, self.count = error, count
        seen = f" ({trouble.str()})" if trouble is not None else ""
        advice = f"; {ADVICE[error.name()]}" if error.name() in ADVICE else ""
        records = "a record was" if count == 1 else f"{count} records were"
        super().__init__(
            f"{records} not delivered; the first to topic {topic!r}: {error.str()} ({error.name()}){advice}{seen}"
        )


class Failures:
    """What librdkafka reports of records that it gave up, and of connections that failed."""

    def __init__(self) -> None:
        # No broker can be reached, as far as is known.
        self.is_deserted = False
        self._trouble: KafkaError | None = None
        self._count = 0
        self._first: tuple[str, KafkaError] | None = None

    def __call__(self, error: KafkaError, record: Message) -> None:
        self._count += 1
        self._first = self._first or (record.topic(), error)

    def raise_any(self) -> None:
        if self._first is not None:
            raise DeliveryFailed(*self._first, self._count, self._trouble)

    def connection_failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 (librdkafka's own codes have this form)
            self.is_deserted = True
        else:
            self._trouble = error

    def begin_task(self) -> None:
        """What earlier tasks met may be over."""
        self.is_deserted, self._trouble = False, None


class TaskProducer:
    """Opened for a task, finished when all is acknowledged; exactly-once will be a transaction from one to the other.

    with TaskProducer(config) as producer:
        producer.send(records)
        producer.finish()
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config

    def __enter__(self) -> Self:
        self._producer, self._failures = _producer(self._config)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            _PRODUCERS.pop(_key(self._config), None)
            self._producer.purge()

    def send(self, records: Iterable[Record]) -> None:
        produce = self._producer.produce
        for record in records:
            try:
                try:
                    produce(*record)
                except BufferError:
                    self._send_when_there_is_room(record)
            except KafkaException as refused:
                raise DeliveryFailed(record[0], refused.args[0]) from None
        self._producer.poll(0)
        self._failures.raise_any()

    def finish(self) -> None:
        while self._producer.flush(POLL_S):
            self._failures.raise_any()
        self._failures.raise_any()

    def _send_when_there_is_room(self, record: Record) -> None:
        """Ends at the latest when what fills the queue has timed out."""
        while True:
            self._producer.poll(POLL_S)
            self._failures.raise_any()
            try:
                self._producer.produce(*record)
            except BufferError:
                continue
            else:
                return


_PRODUCERS: OrderedDict[frozenset[tuple[str, str]], tuple[Producer, Failures]] = OrderedDict()


def _key(config: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(config.items())


def _producer(config: Mapping[str, str]) -> tuple[Producer, Failures]:
    key = _key(config)
    _drop_deserted(key)
    if key not in _PRODUCERS:
        failures = Failures()
        # Reports of failures alone cost nothing; a callback for each record would double the cost of a record.
        reports = {
            "on_delivery": failures,
            "delivery.report.only.error": True,
            "error_cb": failures.connection_failed,
        }
        _PRODUCERS[key] = Producer({**config, **reports}), failures
        if len(_PRODUCERS) > PRODUCERS_MAX:
            _PRODUCERS.popitem(last=False)
    _PRODUCERS.move_to_end(key)
    producer, failures = _PRODUCERS[key]
    failures.begin_task()
    return producer, failures


def _drop_deserted(in_use: frozenset[tuple[str, str]]) -> None:
    """Producers of clusters that have gone, as between two tests: they would ask for their brokers for ever."""
    for key, (producer, failures) in list(_PRODUCERS.items()):
        if key != in_use:
            producer.poll(0)
            if failures.is_deserted:
                del _PRODUCERS[key]
