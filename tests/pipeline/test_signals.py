"""Ctrl-C and SIGTERM: the first requests a stop, the second ends the process. Earlier handlers are restored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from odradek.pipeline.signals import Signals


@pytest.fixture
def answers() -> Iterator[list[str]]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield []
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_requests_a_stop_and_second_ends_the_process(number: signal.Signals, answers: list[str]) -> None:
    with Signals(lambda: answers.append("stopping")) as signals:
        signal.raise_signal(number)
        assert signals.stop.is_set()
        assert answers == ["stopping"]
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new session of Spark does
        signals.take()
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_take_replaces_the_handler_of_spark(answers: list[str]) -> None:
    with Signals(lambda: answers.append("stopping")) as signals:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.take()
        signal.raise_signal(signal.SIGINT)
        assert signals.stop.is_set()
