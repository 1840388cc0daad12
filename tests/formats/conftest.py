"""Directories that Apache Kafka 4.3.1 wrote, made by tests/interop/make_golden.py.

`stopped` and `killed` say how Kafka ended. `configured-voters` was formatted without `--standalone`. In `aged` a
snapshot has replaced the beginning of the metadata log. `transactions` and `transactions-killed` have
open transactions.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ARCHIVES = Path(__file__).parent / "golden"


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Path]:
    def unpacked(name: str) -> Path:
        with zipfile.ZipFile(ARCHIVES / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        return tmp_path / name

    return unpacked
