"""`odradek up` and its console: two processes, of which only the broker matters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odradek.client.admin import Admin
from support.processes import runs
from support.waiting import wait_until


class Up:
    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek.cli", "up", "--memory", "--port", "0", *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "ODRADEK_CONSOLE": "1"},
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.bootstrap = re.search(r"ready on (\S+),", self.output.readline())[1]

    def console(self) -> str:
        line = next(line for line in self.output if line.startswith("Console: "))
        return line.removeprefix("Console: ").strip()

    def console_pid(self) -> int:
        """The only child. A process belongs to the thread that started it."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return next(int(pid) for each in children for pid in each.read_text().split())


@pytest.fixture
def up() -> Iterator[Up]:
    up = Up("--console-port", "0")
    yield up
    up.process.kill()
    up.process.communicate()


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}healthz", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def test_the_console_ends_with_a_broker_that_is_killed(up):
    url = up.console()
    page = httpx.get(url, timeout=60, headers={"accept": "text/html"})
    assert page.status_code == 200
    pid = up.console_pid()
    up.process.send_signal(signal.SIGKILL)
    wait_until(lambda: not runs(pid), "the console has ended")


def test_the_broker_survives_its_console_and_stops_cleanly(up):
    url = up.console()
    assert is_up(url)
    os.kill(up.console_pid(), signal.SIGKILL)
    wait_until(lambda: not is_up(url), "the console is gone")
    Admin(up.bootstrap).create_topic("still-here", 1)
    up.process.terminate()
    rest, _ = up.process.communicate(timeout=60)
    assert "stopped cleanly" in rest
    assert up.process.returncode == 0
