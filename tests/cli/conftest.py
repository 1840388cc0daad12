"""No test of a command reaches a broker that it did not start."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_default_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without -b would change whatever cluster listens on port 9092 of this machine."""
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "127.0.0.1:1")
