"""Installs a plug-in from its own distribution, for one test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def installed(example: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install ./examples/NAME`, but into a folder that only this test sees."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder), str(EXAMPLES / example)], check=True, timeout=120)
    monkeypatch.syspath_prepend(folder)
