"""Runs a connect service in the foreground until Ctrl-C, SIGTERM, or a bug ends it."""

from __future__ import annotations

from collections.abc import Callable

from odradek.connect.service.settings import Settings
from odradek.connect.serving import serving
from odradek.pipeline.signals import Signals

WATCH_S = 0.2


def serve_in_foreground(settings: Settings, on_ready: Callable[[str], None]) -> bool:
    """False if the service ended by itself."""
    with Signals(lambda: None) as signals, serving(settings) as (url, steward):
        signals.take()
        on_ready(url)
        while not signals.stop.wait(WATCH_S):
            if steward.has_ended:
                return False
    return True
