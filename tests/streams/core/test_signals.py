"""Ctrl-C and SIGTERM: the first asks, the second ends, and whoever was there before gets them back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.streams import App
from odradek.streams.running import start
from odradek.streams.signals import Signals


@pytest.fixture
def answers() -> Iterator[list[str]]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield []
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_asks_and_the_second_ends_the_process(number: signal.Signals, answers: list[str]) -> None:
    with Signals(lambda: answers.append("stopping")) as signals:
        signal.raise_signal(number)
        assert signals.stop.is_set()
        assert answers == ["stopping"]
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new session of Spark does
        signals.take()
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_sparks_does_not_stay(answers: list[str]) -> None:
    with Signals(lambda: answers.append("stopping")) as signals:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.take()
        signal.raise_signal(signal.SIGINT)
        assert signals.stop.is_set()


@pytest.mark.spark
def test_a_signal_during_the_start_starts_no_further_query(topics, spark, tmp_path: Path, answers: list[str]) -> None:
    app = App("unwanted")
    app.stream("unwanted-in", schema="n int").to("unwanted-out")
    topics.send("unwanted-in", {"n": 1})
    settings = app.settings.over(bootstrap=topics.bootstrap, state_dir=str(tmp_path))
    with Signals(lambda: answers.append("stopping")) as signals:
        signal.raise_signal(signal.SIGTERM)
        with start(app, settings, spark, signals=signals) as running:
            assert not running.queries
