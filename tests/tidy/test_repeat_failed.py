"""`tools/repeat_failed.py` on small suites: which failures it forgives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/repeat_failed.py"
# The state `runs` is the number of earlier runs of the test.
HEAD = """
import os
from pathlib import Path
import pytest

def runs(name):
    with Path(name).open("a") as file:
        file.write("x")
    return len(Path(name).read_text()) - 1

def test_good():
    pass
"""


def run(directory: Path, test: str = "", *, beside: str = "") -> tuple[int, str]:
    if test:
        (directory / "test_small.py").write_text(HEAD + test)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, TOOL, directory / "cache", beside, "-q", "test_small.py"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


ONCE = """
def test_once():
    assert runs("once") % 2 == 1
"""


def test_a_test_that_fails_once_is_repeated_alone_and_named(tmp_path: Path) -> None:
    status, told = run(tmp_path, ONCE, beside="-n 2")
    assert status == 0, told
    assert "repeating, alone: test_small.py::test_once" in told
    assert (tmp_path / "cache/repeated").read_text() == "test_small.py::test_once\n"


def test_a_test_that_must_be_repeated_in_two_runs_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, ONCE)[0] == 0
    status, told = run(tmp_path)
    assert status == 1
    assert "failed beside others in the run before, too: test_small.py::test_once" in told


def test_a_run_without_failures_forgives_earlier_ones(tmp_path: Path) -> None:
    assert run(tmp_path, ONCE)[0] == 0
    (tmp_path / "once").write_text("x")  # the next run passes
    assert run(tmp_path)[0] == 0
    (tmp_path / "once").write_text("")
    assert run(tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("test", "status", "reason"),
    [
        ("def test_bad():\n    assert 0", 1, "repeating"),
        ("def test_bad():\n    assert runs('a')\n    pytest.skip('not alone')", 1, "0 of them ran and 1 were skipped"),
        ("def test_ends():\n    assert runs('a')\n\ndef test_kills():\n    os._exit(1)", 1, "nothing is repeated"),
        ("def test_stops():\n    assert runs('a')\n\ndef test_ends():\n    pytest.exit('x')", 2, "nothing is repeated"),
        ("assert runs('a')", 2, "nothing is repeated"),
    ],
    ids=["fails twice", "skipped alone", "killed", "ended", "not collected"],
)
def test_other_failures_stay(tmp_path: Path, test: str, status: int, reason: str) -> None:
    found, told = run(tmp_path, test)
    assert found == status, told
    assert reason in told


def test_a_killed_run_is_not_taken_for_the_one_before_it(tmp_path: Path) -> None:
    assert run(tmp_path, "def test_bad():\n    assert 0")[0] == 1
    status, told = run(tmp_path, "def test_bad():\n    os._exit(1)")
    assert status == 1
    assert "nothing is repeated" in told
