"""The demo's processes: brought to life, brought back to life, and given up when they never lived."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.demo.trucking.parts import Part, PartFailed
from support.processes import runs
from support.waiting import wait_until

# Says that it is there, has a child, and stays.
WORKS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(60)
"""


def part(tmp_path: Path, program: str) -> Part:
    there = tmp_path / "there"
    return Part(
        "worker",
        [sys.executable, "-c", program, str(there)],
        tmp_path / "worker.out",
        lambda: there.exists() and bool(there.read_text()),
        lambda: "fine",
        1.0,
    )


def until(what: Callable[[], bool], watched: Part) -> None:
    def holds() -> bool:
        watched.watch()
        return what()

    wait_until(holds, watched.state)


def test_a_killed_part_comes_back_and_its_children_do_not_stay(tmp_path):
    worker = part(tmp_path, WORKS)
    assert worker.state().state == "waiting"
    worker.start()
    assert worker.state().state == "starting"
    until(lambda: worker.alive, worker)
    child = int((tmp_path / "there").read_text())
    (tmp_path / "there").unlink()
    worker.kill()
    until(lambda: not runs(child), worker)
    until(lambda: worker.restarts == 1, worker)
    assert worker.state().state == "restarting"
    until(lambda: worker.alive, worker)
    assert (worker.state().state, worker.state().detail, worker.state().restarts) == ("alive", "fine", 1)
    worker.stop()
    assert worker.state().state == "stopped"
    child = int((tmp_path / "there").read_text())
    until(lambda: not runs(child), worker)


def test_a_part_that_never_lives_is_given_up_with_its_last_words(tmp_path):
    worker = part(tmp_path, "raise SystemExit('no Java here')")
    worker.start()
    with pytest.raises(PartFailed, match="ended with 1:\nno Java here"):
        until(lambda: False, worker)


def test_a_part_that_lived_once_gets_a_few_chances(tmp_path):
    worker = part(tmp_path, WORKS)
    worker.start()
    until(lambda: worker.alive, worker)
    (tmp_path / "there").unlink()
    worker._command[2] = "raise SystemExit(3)"
    worker.kill()
    with pytest.raises(PartFailed, match="ended with 3"):
        until(lambda: False, worker)
    assert worker.restarts == 3  # three chances after the life it had
