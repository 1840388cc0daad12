"""Log lines of clients about an unreachable broker."""

from __future__ import annotations

import logging

from odradek.client.configuring import SayOnce


def said(text: str, at: float) -> logging.LogRecord:
    record = logging.LogRecord("odradek.client", logging.WARNING, "", 0, text, None, None)
    record.created = at
    return record


def test_repeated_log_lines_are_dropped_for_a_while() -> None:
    once = SayOnce(again_after_s=30)
    refused = "FAIL [rdkafka#producer-1] 127.0.0.1:{}/bootstrap: Connection refused (after {}ms in state CONNECT)"
    told = [once.filter(said(refused.format(1, number), at=number)) for number in (0, 1, 29, 31, 32)]
    assert told == [True, False, False, True, False]
    assert once.filter(said("something else", at=32))
