"""The list of plug-ins, made in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.connect.catalogue import Catalogue, Listed
from odradek.connect.plugins import CONNECTORS, GROUPS, every_plugin

LIBRARIES = ("pyarrow", "sqlalchemy", "psycopg", "pymysql", "urllib3", "google.protobuf")
ASKED = f"""
import sys
from odradek.connect.catalogue import Catalogue
assert len(Catalogue().listed()) > 30
print([name for name in {LIBRARIES} if name in sys.modules])
"""


def installed_here() -> list[Listed]:
    return [
        Listed(group=group, name=each.name, path=each.path, kind=each.kind, version=each.version)
        for group in (CONNECTORS, *GROUPS)
        for each in every_plugin(group)[0]
    ]


def plugin_in(folder: Path, text: str) -> None:
    """A distribution with one source."""
    (folder / "lonely.py").write_text(text)
    about = folder / "lonely-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lonely\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[odradek.connectors]\nlonely = lonely:Lonely\n")


def test_all_plugins_are_listed_without_loading_their_libraries_here() -> None:
    assert list(Catalogue().listed()) == installed_here()
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[]\n", done.stderr


def test_a_plugin_that_is_installed_later_and_prints_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = Catalogue()
    before = catalogue.listed()
    source = "from odradek.connect.connectors.datagen import Datagen\nprint('hello')\nclass Lonely(Datagen): pass\n"
    plugin_in(tmp_path, source)
    monkeypatch.syspath_prepend(tmp_path)
    lonely = Listed(group=CONNECTORS, name="lonely", path="lonely.Lonely", kind="source", version="1.0")
    assert set(catalogue.listed()) == {*before, lonely}
    assert "lonely" not in sys.modules


def test_plugins_are_listed_here_if_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert list(Catalogue().listed()) == installed_here()
