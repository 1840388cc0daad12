"""The demo's own honesty: it must not end well when its broker did not."""

from __future__ import annotations

import subprocess

import pytest

from odradek.demo.ports import free_port
from odradek.demo.traffic import show


def test_broker_that_dies_at_the_end_is_reported(monkeypatch):
    brokers: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen):
        def __init__(self, *arguments, **options) -> None:
            super().__init__(*arguments, **options)
            brokers.append(self)

    monkeypatch.setattr(show.subprocess, "Popen", Watched)
    with pytest.raises(show.DemoFailed, match="stop cleanly"), show._broker(free_port(0), "127.0.0.1:0"):
        brokers[0].kill()
