"""The check that a cluster is reachable when a query starts."""

from __future__ import annotations

import socket
import threading

import pytest

from odradek.spark.reachability import require_reachable


@pytest.mark.parametrize("bootstrap", ["live:1,silent:1,silent:2", "silent:1,silent:2,live:1"], ids=["first", "last"])
def test_silent_brokers_cause_no_delay_when_another_broker_accepts(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, waited_for = threading.Event(), []

    def connected(address: tuple[str, int], _: float) -> socket.socket:
        if address[0] == "live":
            return socket.socket()
        if not over.wait(3):
            waited_for.append(address)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", connected)
    try:
        require_reachable(bootstrap)
    finally:
        over.set()
    assert waited_for == []
