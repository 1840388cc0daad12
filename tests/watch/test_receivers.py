"""Commands that get the messages of alerts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.monitor.alerts.alerts import Change, Key, Notice, Opened
from odradek.watch.receivers import Command, NotDelivered
from support.waiting import wait_until

ALERT = Opened(key=Key("DiskFull", "node-1", ()), opened_ms=0, condition="free < 1", send=("log",), value=0)
NOTICE = Notice(change=Change.OPENED, alert=ALERT, at_ms=0, value=0)


def command(program: str) -> Command:
    return Command(run=(sys.executable, "-c", program), timeout_s=60)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Path]:
    """A file for the process id of a child that is killed after the test."""
    path = tmp_path / "child"
    yield path
    os.kill(int(path.read_text()), signal.SIGKILL)


def leaving_a_child(path: Path, then: str) -> Command:
    """Its child has the standard output and error of the command."""
    start = "child = subprocess.Popen(['sleep', '600'])"
    return command(f"import subprocess, sys; {start}; open({str(path)!r}, 'w').write(str(child.pid)); {then}")


def test_command_that_leaves_a_child_with_its_output_open_has_delivered(child: Path) -> None:
    leaving_a_child(child, "print('done')").deliver("log", NOTICE)


def test_error_of_a_failed_command_that_leaves_a_child_is_reported(child: Path) -> None:
    with pytest.raises(NotDelivered, match="exited with 3: no route"):
        leaving_a_child(child, "sys.stderr.write('no route'); sys.exit(3)").deliver("log", NOTICE)


def test_command_may_write_more_than_a_pipe_holds() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotDelivered, match=r"exited with 1: x{492} broken$"):
        command("import sys; print('y' * 1_000_000); sys.exit('x' * 1_000_000 + ' broken')").deliver("log", NOTICE)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_command_that_does_not_end_is_not_delivered() -> None:
    with pytest.raises(NotDelivered, match="timed out after"):
        Command(run=("sleep", "600"), timeout_s=1).deliver("log", NOTICE)
