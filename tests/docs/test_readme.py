"""Every command and snippet of the README is run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import broker_on_the_usual_port
from odradek.testing import Embedded

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_two_commands_exist() -> None:
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), target


@pytest.fixture(scope="module")
def broker_on_9092() -> Iterator[Embedded]:
    with broker_on_the_usual_port() as broker:
        yield broker


def test_the_terminal_session(broker_on_9092: Embedded) -> None:
    [session] = [block for block in blocks("sh") if "odradek topic" in block]
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-euc", session],
        capture_output=True,
        text=True,
        env={"PATH": f"{scripts}:/usr/bin:/bin"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d@0 alice: 2 apples", done.stdout)


@pytest.mark.parametrize("snippet", blocks("python"))
def test_the_python_snippets(broker_on_9092: Embedded, snippet: str) -> None:
    subprocess.run([sys.executable, "-c", snippet], check=True, timeout=60)


def test_the_example_test_passes() -> None:
    example = str(ROOT / "examples" / "test_orders.py")
    subprocess.run([sys.executable, "-m", "pytest", "-q", example], check=True, timeout=120)
