"""Small files that must be whole after the machine has died."""

from __future__ import annotations

from pathlib import Path

from odradek.pipeline.durable import replace_durably, sync


def write_durably(path: Path, text: str) -> None:
    """As `replace_durably`. The folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, text.encode())
    sync(path.parent.parent)
