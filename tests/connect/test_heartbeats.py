"""When the heartbeats of a source are due."""

from __future__ import annotations

from odradek.connect.connectors.heartbeats import Heartbeats
from odradek.connect.records import SourcePlace

PLACE = SourcePlace({"server": "shop"}, {"pos": 1})


def test_the_first_heartbeat_is_due_at_once_and_each_next_one_after_the_interval() -> None:
    """A task that waits for a slot is stopped after some seconds: it would never reach the end of a long interval."""
    now_s = [100.0]
    heartbeats = Heartbeats(10_000, topic="beats", server="shop", clock=lambda: now_s[0])
    assert heartbeats.is_due()
    heartbeats.event(PLACE)
    now_s[0] = 109.9
    assert not heartbeats.is_due()
    now_s[0] = 110.0
    assert heartbeats.is_due()


def test_an_interval_of_zero_has_no_heartbeats() -> None:
    assert not Heartbeats(0, topic="beats", server="shop").is_due()
