"""The fixtures of the pytest plug-in, in a separate pytest run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LEAKING = """
import threading

from odradek.client import Consumer, Producer

left = []


def test_that_leaves_its_clients_open(odradek):
    producer = Producer(odradek.bootstrap_servers)
    producer.send("t", "v").result(20)
    left.extend([producer, Consumer("t", bootstrap=odradek.bootstrap_servers, group="g")])


def test_that_comes_after_it():
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("odradek-")]
    assert False, "to see what is printed"
"""


def test_open_clients_are_closed_before_the_broker_of_the_test_stops(tmp_path: Path) -> None:
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout
    assert "AssertionError: to see what is printed" in done.stdout
    assert "rdkafka" not in done.stdout + done.stderr
    for kind in ("Producer", "Consumer"):
        assert f"ResourceWarning: unclosed {kind}: use it in a `with` block, or close it" in done.stdout
