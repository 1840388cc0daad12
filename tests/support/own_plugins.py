"""Installs plug-ins that a test writes as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def distribution(
    folder: Path, name: str, text: str, entries: Mapping[str, str], group: str = "odradek.connectors"
) -> None:
    """A distribution with one module; `entries` are its plug-ins, by the names of their entry points."""
    (folder / f"{name}.py").write_text(text)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {name}:{attribute}" for entry, attribute in entries.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
