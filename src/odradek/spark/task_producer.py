"""Sends the records of one task to the brokers, and checks at the end that all were delivered.

All tasks of a worker process with the same config share a producer, so later tasks have connections, metadata and a
producer id already. After any error the producer is dropped, with all records in its queue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Record = tuple[Any, ...]
"""Arguments of `Producer.produce`: topic, value, key, optionally partition, then headers."""

PRODUCERS_MAX = 8
# Only failures are reported, so nothing wakes a waiting poll after a success. The wait must be short.
POLL_S = 0.005

# by the names of librdkafka's errors; names with an underscore are local errors, not errors of a broker
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
        self.topic, self.error, self.count = topic, error, count
        seen = f" ({trouble.str()})" if trouble is not None else ""
        advice = f"; {ADVICE[error.name()]}" if error.name() in ADVICE else ""
        records = "a record was" if count == 1 else f"{count} records were"
        super().__init__(
            f"{records} not delivered; the first to topic {topic!r}: {error.str()} ({error.name()}){advice}{seen}"
        )


class Failures:
    """Undelivered records and connection errors, as librdkafka reports them."""

    def __init__(self) -> None:
        # librdkafka has reported that all brokers are down.
        self.is_deserted = False
        self._trouble: KafkaError | None = None
        self._count = 0
        self._first: tuple[str, KafkaError] | None = None

    def __call__(self, error: KafkaError | None, record: Message) -> None:
        if error is None:
            return
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
        """Forget connection errors of earlier tasks: they may be over."""
        self.is_deserted, self._trouble = False, None


class TaskProducer:
    """The producer of one task. `finish` returns when all records are acknowledged.

    with TaskProducer(config) as producer:
        producer.send(records)
        producer.finish()
    """

    def __init__(self, config: Mapping[str, str | bool]) -> None:
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

    def send(self, records: Iterable[Record], size: int = 0) -> None:  # noqa: ARG002 (as of TaskTransaction)
        deliver(self._producer, self._failures, records)

    def finish(self) -> None:
        while self._producer.flush(POLL_S):
            self._failures.raise_any()
        self._failures.raise_any()


def deliver(producer: Producer, failures: Failures, records: Iterable[Record]) -> None:
    """Hands all of them to the producer. Raises the first failure that is known by then."""
    produce = producer.produce
    for record in records:
        try:
            try:
                produce(*record)
            except BufferError:
                _send_when_there_is_room(producer, failures, record)
        except KafkaException as refused:
            raise DeliveryFailed(record[0], refused.args[0]) from None
    producer.poll(0)
    failures.raise_any()


def _send_when_there_is_room(producer: Producer, failures: Failures, record: Record) -> None:
    """Returns at the latest when records in the queue time out."""
    while True:
        producer.poll(POLL_S)
        failures.raise_any()
        try:
            producer.produce(*record)
        except BufferError:
            continue
        else:
            return


def reporting(failures: Failures) -> dict[str, Any]:
    """Reports of failures cost nothing. A callback for each record would double the cost of a record."""
    return {"on_delivery": failures, "delivery.report.only.error": True, "error_cb": failures.connection_failed}


_PRODUCERS: OrderedDict[frozenset[tuple[str, str | bool]], tuple[Producer, Failures]] = OrderedDict()


def _key(config: Mapping[str, str | bool]) -> frozenset[tuple[str, str | bool]]:
    return frozenset(config.items())


def _producer(config: Mapping[str, str | bool]) -> tuple[Producer, Failures]:
    key = _key(config)
    _drop_deserted(key)
    if key not in _PRODUCERS:
        failures = Failures()
        _PRODUCERS[key] = Producer({**reporting(failures), **config}), failures
        if len(_PRODUCERS) > PRODUCERS_MAX:
            _PRODUCERS.popitem(last=False)
    _PRODUCERS.move_to_end(key)
    producer, failures = _PRODUCERS[key]
    failures.begin_task()
    return producer, failures


def _drop_deserted(in_use: frozenset[tuple[str, str | bool]]) -> None:
    """Drop producers of clusters that no longer exist, as after a test: they would try to reconnect forever."""
    for key, (producer, failures) in list(_PRODUCERS.items()):
        if key != in_use:
            producer.poll(0)
            if failures.is_deserted:
                del _PRODUCERS[key]
