"""A signal while an application starts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from odradek.pipeline.signals import Signals
from odradek.streams import App
from odradek.streams.run.running import start


@pytest.mark.spark
def test_a_signal_during_the_start_starts_no_further_query(topics, spark, tmp_path: Path) -> None:
    app = App("unwanted")
    app.stream("unwanted-in", schema="n int").to("unwanted-out")
    topics.send("unwanted-in", {"n": 1})
    settings = app.settings.over(bootstrap=topics.bootstrap, state_dir=str(tmp_path))
    with Signals(lambda: None) as signals:
        signal.raise_signal(signal.SIGTERM)
        with start(app.application, settings, spark, signals=signals) as running:
            assert not running.queries
