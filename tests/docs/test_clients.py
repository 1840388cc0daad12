"""The examples of the clients page that need no compiler. tests/interop runs the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import DOCS, Block, Terminal, blocks
from odradek.client import Admin
from odradek.testing import Embedded

PAGE = DOCS / "clients.md"


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Embedded() as broker:
        Admin(broker.bootstrap_servers).create_topic("hello")
        yield broker.bootstrap_servers


def snippet(kind: str, bootstrap: str) -> Block:
    [found] = blocks(PAGE, kind)
    return Block(kind, found.text.replace("127.0.0.1:9092", bootstrap))


def test_python_example_of_the_clients_page_runs(bootstrap: str) -> None:
    program = [sys.executable, "-c", snippet("python", bootstrap).text]
    told = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (told.stdout, told.returncode) == ("python Hello from Python\n", 0), told.stderr


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_example_of_the_clients_page_runs(bootstrap: str, tmp_path: Path) -> None:
    with Terminal(tmp_path, bootstrap) as terminal:
        assert terminal.run(snippet("sh", bootstrap)) == "kcat Hello from kcat\n"
