"""Outcomes of sent records. Futures report them; failures of unread futures are reported when the producer ends.

When a producer ends, records in flight get 30 seconds. They get 5 seconds if no broker has ever acknowledged a record
and none answers: then the address is wrong or no broker is running. Records that are left have failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextvars import Context
from typing import TYPE_CHECKING, Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from odradek.client.records import SendFailed, Stored, Undelivered, Unsent, time_of
from odradek.client.statistics import INTERVAL, INTERVAL_MS, Statistics

if TYPE_CHECKING:
    from confluent_kafka import Message

logger = logging.getLogger(__name__)

POLL_S = 0.1
AT_END_S = 30.0
NOBODY_THERE_S = 5.0
ASK_S = 1.0
PURGE_S = 5.0
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 librdkafka names its own codes so


class Unseen:
    """Failed records whose futures the program has not read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.last: SendFailed

    def add(self, failure: SendFailed) -> None:
        """Counts a failed record whose future can no longer be read."""
        with self.lock:
            self.count += 1
            self.last = failure


class Watch:
    """Whether the program has read a future, or waits for it. One thread fails the future, another reads it."""

    def __init__(self, unseen: Unseen) -> None:
        self._unseen = unseen
        self._is_asked = False
        self._has_failed = False

    def ask(self) -> None:
        with self._unseen.lock:
            self._unseen.count -= self._has_failed and not self._is_asked
            self._is_asked = True

    def leave(self) -> None:
        """The program stopped waiting without a result."""
        with self._unseen.lock:
            self._unseen.count += self._has_failed and self._is_asked
            self._is_asked = False

    def tell(self, failure: SendFailed) -> None:
        with self._unseen.lock:
            self._has_failed = True
            self._unseen.count += not self._is_asked
            self._unseen.last = failure


class Delivery(Future[Stored]):
    def __init__(self, unseen: Unseen) -> None:
        super().__init__()
        self._watch = Watch(unseen)
        self.set_running_or_notify_cancel()

    def settle(self, outcome: Stored | SendFailed) -> None:
        if isinstance(outcome, SendFailed):
            self._watch.tell(outcome)
            self.set_exception(outcome)
        else:
            self.set_result(outcome)

    def add_done_callback(self, fn: Callable[[Future[Stored]], object]) -> None:
        self._watch.ask()
        super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> Stored:
        self._watch.ask()
        try:
            return super().result(timeout)
        except TimeoutError:
            self._watch.leave()
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._watch.ask()
        try:
            return super().exception(timeout)
        except TimeoutError:
            self._watch.leave()
            raise


class AsyncDelivery(asyncio.Future[Stored]):
    """Settled and read on the event loop. Suppresses asyncio's warning about exceptions that were not retrieved."""

    def __init__(self, loop: asyncio.AbstractEventLoop, unseen: Unseen) -> None:
        super().__init__(loop=loop)
        self._watch = Watch(unseen)

    def settle(self, outcome: Stored | SendFailed) -> None:
        if self.done():  # cancelled
            return
        if isinstance(outcome, SendFailed):
            self._watch.tell(outcome)
            self.set_exception(outcome)
            super().exception()
        else:
            self.set_result(outcome)

    def add_done_callback(self, fn: Callable[[Self], object], *, context: Context | None = None) -> None:
        self._watch.ask()
        super().add_done_callback(fn, context=context)

    def __await__(self) -> Generator[Any, None, Stored]:
        self._watch.ask()
        return super().__await__()

    def result(self) -> Stored:
        self._watch.ask()
        return super().result()

    def exception(self) -> BaseException | None:
        self._watch.ask()
        return super().exception()


class Reach:
    """Whether brokers can be reached, as librdkafka reports. Separate: its callback keeps nothing else alive."""

    def __init__(self) -> None:
        self.is_acknowledged = False
        self.trouble: KafkaError | None = None

    def failed(self, error: KafkaError) -> None:
        # The error of one broker says more than "all brokers are down".
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.trouble = error


class Deliveries:
    """librdkafka's producer, and the thread that polls it for delivery reports until `end`."""

    def __init__(self, bootstrap: str, config: dict[str, object]) -> None:
        self.unseen = Unseen()
        self.statistics = Statistics()
        self._bootstrap = bootstrap
        self._reach = Reach()
        self._end_s: float | None = None
        self._pid = os.getpid()
        self.client = confluent_kafka.Producer(
            {INTERVAL: INTERVAL_MS, **config, "error_cb": self._reach.failed, "stats_cb": self.statistics.reported}
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=_serve, args=(self.client, self._stopped), name="odradek-producer", daemon=True
        )
        self._thread.start()

    def outcome(self, error: KafkaError | None, message: Message) -> Stored | SendFailed:
        topic, partition, offset = message.topic() or "", message.partition(), message.offset()
        if error is None:
            self._reach.is_acknowledged = True
            return Stored(
                topic, -1 if partition is None else partition, -1 if offset is None else offset, time_of(message)
            )
        self.statistics.failed(topic)
        what = f"sending to {topic!r} on {self._bootstrap}"
        if self._end_s is not None and error.code() in _PURGED:
            what += f", given up after {self._end_s:g} s when the producer ended"
            if not self._reach.is_acknowledged and self._reach.trouble is not None:
                return SendFailed(what, self._reach.trouble)
        return SendFailed(what, error)

    def flush(self, timeout_s: float | None) -> None:
        left = self.client.flush(-1 if timeout_s is None else timeout_s)
        if left:
            raise Unsent(left, timeout_s or 0, None if self._reach.is_acknowledged else self._reach.trouble)

    def end(self) -> None:
        """Flushes or gives up. Afterwards every future is done, and no thread is left."""
        if self._pid != os.getpid():
            return  # a forked process has the queue, but none of the threads that would send it
        if self._thread is threading.current_thread():
            # Called by a future's callback, on the thread that must report the other deliveries: end on another thread.
            threading.Thread(target=self.end_and_log, name="odradek-producer-end").start()
            return
        self._flush_or_give_up()
        self.statistics.end()
        self._stopped.set()
        self._thread.join()

    def end_and_log(self) -> None:
        """Ends, and logs failures that were not read, where there is no caller to raise to."""
        self.end()
        self.log_unseen()

    def log_unseen(self) -> None:
        if self.unseen.count:
            logger.error("%s", Undelivered(self.unseen.count, self.unseen.last))

    def raise_unseen(self) -> None:
        if self.unseen.count:
            raise Undelivered(self.unseen.count, self.unseen.last)

    def _flush_or_give_up(self) -> None:
        waited_s = min(NOBODY_THERE_S, AT_END_S)
        if not self._left_after(waited_s):
            return
        if self._reach.is_acknowledged or self._is_answered():
            if not self._left_after(AT_END_S - waited_s):
                return
            waited_s = AT_END_S
        self._end_s = waited_s
        self.client.purge()
        self._left_after(PURGE_S)

    def _left_after(self, timeout_s: float) -> int:
        try:
            left: int = self.client.flush(timeout_s)
        except KafkaException:
            # A fatal error, such as the end of a fenced producer's transaction. Records in flight fail with it.
            left = len(self.client)
        return left

    def _is_answered(self) -> bool:
        try:
            self.client.list_topics(timeout=ASK_S)
        except KafkaException:
            return False
        return True


def _serve(client: confluent_kafka.Producer, stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            client.poll(POLL_S)
        except KafkaException:
            # A fatal error, which the next call of the program reports. Records in flight still get their outcome.
            stopped.wait(POLL_S)
