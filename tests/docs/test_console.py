"""docs/console.md: its command, its links to screenshots, and the severities in its table."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import httpx

from docs.pages import DOCS, blocks
from odradek.console.filters import parsed
from odradek.testing import Embedded

PAGE = DOCS / "console.md"


def test_the_command_shows_a_cluster():
    (command,) = [each.text for each in blocks(PAGE, "sh")]
    arguments = shlex.split(command, comments=True)
    with Embedded() as broker:
        arguments[arguments.index("127.0.0.1:9092")] = broker.bootstrap_servers
        console = subprocess.Popen(
            [sys.executable, "-m", "odradek.cli", *arguments[1:], "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert console.stdout is not None
            url = console.stdout.readline().removeprefix("Console: ").strip()
            assert httpx.get(url, timeout=60, headers={"accept": "text/html"}).status_code == 200
        finally:
            console.terminate()
            console.communicate(timeout=60)
    assert console.returncode == 0


def test_screenshots_exist():
    for name in re.findall(r"\]\((console/[^)]+\.png)\)", PAGE.read_text()):
        assert (PAGE.parent / name).exists(), name


def test_filters_of_the_table_are_valid():
    rows = re.findall(r"^\| (`.+?) \| ", PAGE.read_text().split("## Messages")[1].split("| decoder |")[0], re.MULTILINE)
    filters = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(filters) > 10
    for text in filters:
        parsed(text)
