"""A future fails on one thread and is read on another: its failure counts as unseen or is raised, never both."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError

from odradek.client.deliveries import Delivery, Unseen
from odradek.client.records import SendFailed

FAILURE = SendFailed("sending", KafkaError(KafkaError._TRANSPORT))


class LateLock:
    """A lock that runs a function before its first owner gets it."""

    def __init__(self, meanwhile) -> None:
        self._lock = threading.Lock()
        self._meanwhile = [meanwhile]

    def __enter__(self) -> None:
        if self._meanwhile:
            self._meanwhile.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_callback_added_while_the_future_fails_counts_as_reading_it() -> None:
    unseen = Unseen()
    delivery = Delivery(unseen)
    unseen.lock = LateLock(lambda: delivery.add_done_callback(lambda _: None))
    delivery.settle(FAILURE)
    assert unseen.count == 0


@pytest.mark.parametrize("ask", [Delivery.result, Delivery.exception])
def test_a_wait_that_times_out_while_the_future_fails_does_not_count_as_reading_it(ask) -> None:
    class Failing(Delivery):
        def set_exception(self, failure) -> None:
            with pytest.raises(TimeoutError):
                ask(self, 0)
            super().set_exception(failure)

    unseen = Unseen()
    delivery = Failing(unseen)
    delivery.settle(FAILURE)
    assert unseen.count == 1
    assert delivery.exception() is FAILURE
    assert unseen.count == 0
